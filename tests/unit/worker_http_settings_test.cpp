// The settings of the HTTP side reach the server, and their defaults are its own.
#include <doctest/doctest.h>

#include "support/complaint.hpp"
#include "worker/http_server.hpp"
#include "worker/settings.hpp"

#include <skald/errors.hpp>

#include <string>

using namespace skald;
using worker_detail::server_options_of;
using worker_detail::settings;

namespace {

http::server_options options_with(std::string const& variable, std::string const& value)
{
    return server_options_of(worker_detail::from({{variable, value}}, {}));
}

/// A number that no setting has by default, and each may have.
std::string other_value(worker_detail::setting const& s)
{
    if (s.variable == "SKALD_HTTP_LISTEN") return "127.0.0.1:0";
    if (s.variable == "SKALD_HTTP_BODIES_BYTES_MAX") return "262144";  // one body, at least
    return "256" + std::string{s.show(config{}) == "256" ? "0" : ""};
}

std::string refusal_of(std::string const& variable, std::string const& value)
{
    return test::complaint_about([&] { options_with(variable, value); });
}

}  // namespace

TEST_CASE("what nobody set is the server's own default")
{
    http::server_options expected;
    expected.listen = "";  // off
    CHECK(server_options_of(config{}) == expected);
}

TEST_CASE("every setting of the HTTP side changes the server's options")
{
    auto const unchanged = server_options_of(config{});
    int seen = 0;
    for (auto const& s : settings()) {
        if (!s.variable.starts_with("SKALD_HTTP_") || s.variable.starts_with("SKALD_HTTP_KEPT_"))
            continue;  // the entry's
        CAPTURE(s.variable);
        CHECK_FALSE(options_with(std::string{s.variable}, other_value(s)) == unchanged);
        ++seen;
    }
    CHECK(seen >= 18);
}

TEST_CASE("a limit that can't be is refused with its name, its value and what would be right")
{
    struct row
    {
        char const* variable;
        char const* value;
        char const* right;
    };
    for (auto const& r : {
             row{"SKALD_HTTP_LINE_BYTES_MAX", "63", "a whole number from 64 to 65536"},
             row{"SKALD_HTTP_HEADER_BYTES_MAX", "16k", "a whole number from 256 to 1048576"},
             row{"SKALD_HTTP_HEADER_COUNT_MAX", "0", "a whole number from 1 to 1000"},
             row{"SKALD_HTTP_BODY_BYTES_MAX", "67108865", "a whole number from 0 to 67108864"},
             row{"SKALD_HTTP_BODIES_BYTES_MAX", "0", "a whole number from 1 to 1099511627776"},
             row{"SKALD_HTTP_HEADER_MS", "0", "a whole number from 1 to 3600000"},
             row{"SKALD_HTTP_BODY_MS", "1.5", "a whole number from 1 to 3600000"},
             row{"SKALD_HTTP_BODY_RATE_MIN", "-1", "a whole number from 0 to 1000000000"},
             row{"SKALD_HTTP_WRITE_MS", "3600001", "a whole number from 1 to 3600000"},
             row{"SKALD_HTTP_IDLE_MS", "", "a whole number from 1 to 3600000"},
             row{"SKALD_HTTP_CONNECTIONS_MAX", "0", "a whole number from 1 to 1000000"},
             row{"SKALD_HTTP_PEER_CONNECTIONS_MAX", "many", "a whole number from 0 to 1000000"},
             row{"SKALD_HTTP_CONNECTION_REQUESTS_MAX", "0", "a whole number from 1 to 1000000000"},
             row{"SKALD_HTTP_QUEUE_MAX", " 1", "a whole number from 0 to 100000"},
             row{"SKALD_HTTP_WAITS_MAX", "1000001", "a whole number from 0 to 1000000"},
             row{"SKALD_HTTP_KEPT_BYTES_MAX", "8M", "a whole number from 0 to 1073741824"},
             row{"SKALD_HTTP_KEPT_MS", "0", "a whole number from 1 to 3600000"},
             row{"SKALD_HTTP_WAIT_SECONDS", "601", "a whole number from 0 to 600"},
             row{"SKALD_HTTP_LANES", "0", "a whole number from 1 to 256"},
         }) {
        auto const& [variable, value, right] = r;
        CHECK(refusal_of(variable, value) == std::string{variable} + ": '" + value + "' is not " + right);
    }
}

TEST_CASE("an address that nothing can listen on is refused before anything is started")
{
    for (auto const* variable : {"SKALD_HTTP_LISTEN", "SKALD_HEALTH_LISTEN"})
        for (auto const* wrong : {"8080", "127.0.0.1:99999", ":8080", "::1:80", "localhost:http", "localhost:", "on"})
            CHECK(refusal_of(variable, wrong) ==
                  std::string{variable} + ": '" + wrong + "' is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080");
    CHECK(refusal_of("SKALD_HEALTH_LISTEN", "off").empty());
    CHECK(refusal_of("SKALD_HTTP_LISTEN", "[::1]:0").empty());
}

TEST_CASE("no setting may be said and be empty: it would mean off, or plain HTTP, to those who meant neither")
{
    for (auto const& s : settings()) {
        if (s.flag.empty()) continue;
        CAPTURE(s.variable);
        auto const by_flag = test::complaint_about([&] {
            worker_detail::from({}, {{s.flag.begin(), s.flag.end()}, ""});
        });
        CHECK(by_flag.starts_with(std::string{s.flag} + ": "));
        auto const by_variable = refusal_of(std::string{s.variable}, "");
        if (s.variable.starts_with("OTEL_")) CHECK(by_variable.empty());  // OpenTelemetry: as if it were not there
        else CHECK(by_variable.starts_with(std::string{s.variable} + ": "));
    }
    for (auto const* variable : {"SKALD_HTTP_LISTEN", "SKALD_HTTP_TLS_CERTIFICATE", "SKALD_HTTP_TLS_KEY"})
        CHECK(refusal_of(variable, "") == std::string{variable} + ": empty; leave it out to have the default (none)");
    for (auto const* nothing : {" ", "\t\n"})
        CHECK(refusal_of("DATABASE_URL", nothing).starts_with("DATABASE_URL: empty; leave it out to have the default"));
    CHECK(refusal_of("SKALD_HEALTH_LISTEN", "") ==
          "SKALD_HEALTH_LISTEN: empty; leave it out to have the default (127.0.0.1:0)");
}

TEST_CASE("room for all bodies that has none for one is refused")
{
    auto const said = refusal_of("SKALD_HTTP_BODIES_BYTES_MAX", "262143");
    CHECK(said.find("SKALD_HTTP_BODIES_BYTES_MAX (262143)") != std::string::npos);
    CHECK(said.find("SKALD_HTTP_BODY_BYTES_MAX (262144)") != std::string::npos);
    CHECK(refusal_of("SKALD_HTTP_BODIES_BYTES_MAX", "262144").empty());
}
