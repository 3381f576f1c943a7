#include <doctest/doctest.h>

#include <stdexcept>

#include "http/listen_address.hpp"

using namespace skald::http;

TEST_CASE("HOST:PORT is read and written back")
{
    struct row
    {
        std::string text, host;
        int port;
    };
    for (auto const& r : {
             row{"127.0.0.1:8080", "127.0.0.1", 8080},
             row{"0.0.0.0:0", "0.0.0.0", 0},
             row{"localhost:65535", "localhost", 65535},
             row{"[::1]:8080", "::1", 8080},
             row{"[::]:1", "::", 1},
         }) {
        auto const& [text, host, port] = r;
        CAPTURE(r.text);
        auto const address = parse_listen_address(text, "X");
        CHECK(address.host == host);
        CHECK(address.port == port);
        CHECK(to_string(address) == text);
    }
}

TEST_CASE("an address that isn't HOST:PORT is refused with the setting's name and value")
{
    for (std::string const text : {"", "localhost", "8080", ":8080", "[]:80", "::1:80", "[::1]", "h:", "h:65536",
                                   "h:-1", "h:+1", "h: 1", "h:1 ", "h:http", "h:0x10"}) {
        CAPTURE(text);
        try {
            parse_listen_address(text, "SKALD_HTTP_LISTEN (--listen)");
            FAIL("accepted");
        }
        catch (std::runtime_error const& e) {
            std::string const what = e.what();
            CHECK(what.starts_with("SKALD_HTTP_LISTEN (--listen) \"" + text + "\" "));
        }
    }
}
