#include <doctest/doctest.h>

#include "http/target.hpp"

using namespace skald::http;
using namespace std::string_literals;

TEST_CASE("a target splits into path and query, still encoded")
{
    struct row
    {
        std::string target, authority, path, query;
    };
    for (auto const& r : {
             row{"/", "", "/", ""},
             row{"/sagas/a%2Fb?x=1&y=2", "", "/sagas/a%2Fb", "x=1&y=2"},
             row{"/a?b?c", "", "/a", "b?c"},
             row{"/a?", "", "/a", ""},
             row{"http://shop:80/a?b", "shop:80", "/a", "b"},
             row{"HTTPS://shop", "shop", "/", ""},
             row{"http://shop?b", "shop", "/", "b"},
             row{"//shop/a", "", "//shop/a", ""},
         }) {
        auto const& [target, authority, path, query] = r;
        CAPTURE(r.target);
        auto const parts = split_target(target);
        REQUIRE(parts);
        CHECK(parts->authority == authority);
        CHECK(parts->path == path);
        CHECK(parts->query == query);
    }
}

TEST_CASE("targets that no route can have do not split")
{
    for (auto const* target : {"", "*", "shop:80", "sagas", "ftp://a/b", "http:///a", "http://", "http:/a", "/a#b"}) {
        CAPTURE(target);
        CHECK_FALSE(split_target(target));
    }
}

TEST_CASE("percent-decoding takes valid escapes in either case and nothing else")
{
    CHECK(percent_decode("") == "");
    CHECK(percent_decode("a+b") == "a+b");
    CHECK(percent_decode("%41%2f%2F%7e") == "A//~");
    CHECK(percent_decode("%C3%A4%ff") == "\xC3\xA4\xff");
    CHECK(percent_decode("%2541") == "%41");  // once, never twice
    for (auto const* bad : {"%", "%4", "a%4", "%zz", "%4z", "%z4", "% 4", "%+4", "%00", "%0a", "%0D", "%1f", "%7F"}) {
        CAPTURE(bad);
        CHECK_FALSE(percent_decode(bad));
    }
}

TEST_CASE("an encoded segment holds no delimiter and decodes to what it was")
{
    CHECK(percent_encode_segment("order-42_a.b~") == "order-42_a.b~");
    CHECK(percent_encode_segment("a/b c:d?e%") == "a%2Fb%20c%3Ad%3Fe%25");
    std::string all;
    for (int byte = 0x20; byte < 0x100; ++byte)
        if (byte != 0x7f) all += static_cast<char>(byte);
    auto const encoded = percent_encode_segment(all);
    CHECK(encoded.find_first_of("/?#&=+ ") == std::string::npos);
    CHECK(percent_decode(encoded) == all);
}

TEST_CASE("a query parameter is found by its decoded name")
{
    auto const query = "state=parked&empty=&flag&na%6De=a+b%2Bc&state=running&bad=%zz";
    CHECK(query_parameter(query, "state") == "parked");
    CHECK(query_parameter(query, "empty") == "");
    CHECK(query_parameter(query, "flag") == "");
    CHECK(query_parameter(query, "name") == "a b+c");
    CHECK_FALSE(query_parameter(query, "stat"));
    CHECK_FALSE(query_parameter(query, "bad"));
    CHECK_FALSE(query_parameter("", "state"));
    CHECK_FALSE(query_parameter("&&", "state"));
    CHECK(query_parameter("&&a=b=c&", "a") == "b=c");
}
