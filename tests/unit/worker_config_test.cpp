// What config::check() refuses, and what --help says.
#include <doctest/doctest.h>

#include "http/server.hpp"
#include "support/complaint.hpp"
#include "worker/settings.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>
#include <skald/worker.hpp>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace skald;
using test::contains;
using namespace std::chrono_literals;

namespace {

config payments()
{
    config c;
    return c;
}

/// The complaint about the configuration; empty where there is none.
std::string complaint(config const& c)
{
    return test::complaint_about([&] { c.check(); });
}

std::string complaint_with(std::string const& variable, std::string const& value)
{
    return test::complaint_about([&] { worker_detail::from({{variable, value}}, {}); });
}

}  // namespace

TEST_CASE("a service ends with 1 for what may pass, and with 2 for what is wrong")
{
    // Those of the test run are no settings.
    auto const of_the_run = worker_detail::read_environment();
    for (auto const& [name, value] : of_the_run)
        if (name.starts_with("SKALD_")) ::unsetenv(name.c_str());
    char const* const arguments[]{"payments"};
    auto const code_of = [&](auto const& error) {
        return run_service([&]() -> service { throw error; }, 1, arguments, {});
    };
    CHECK(code_of(std::system_error{EAGAIN, std::generic_category(), "no thread"}) == 1);
    CHECK(code_of(std::bad_alloc{}) == 1);
    CHECK(code_of(http::address_unavailable{"not yet"}) == 1);
    CHECK(code_of(configuration_error{"wrong"}) == 2);
    CHECK(code_of(std::logic_error{"wrong"}) == 2);
    CHECK(code_of(std::system_error{ENOENT, std::generic_category(), "a file of the program's"}) == 2);
    for (auto const& [name, value] : of_the_run)
        if (name.starts_with("SKALD_")) ::setenv(name.c_str(), value.c_str(), 1);
}

TEST_CASE("the defaults are a configuration")
{
    CHECK(complaint(payments()) == "");
}

TEST_CASE("a log level that does not exist is refused by name")
{
    for (std::string const level : {"debug", "info", "warning", "error"}) {
        auto c = payments();
        c.log_level = level;
        CHECK(complaint(c) == "");
    }
    for (std::string const level : {"", "Info", "warn", "trace"}) {
        auto c = payments();
        c.log_level = level;
        CHECK(contains(complaint(c), "SKALD_LOG_LEVEL: '" + level + "'"));
    }
}

TEST_CASE("fewer deliveries than lanes are refused with both numbers")
{
    auto c = payments();
    c.lanes = 8;
    c.prefetch = 7;
    CHECK(contains(complaint(c), "SKALD_PREFETCH (7)"));
    CHECK(contains(complaint(c), "SKALD_LANES (8)"));
    c.prefetch = 8;
    CHECK(complaint(c) == "");
}

TEST_CASE("one address for requests and for probes is refused before it is taken, unless its port is picked")
{
    auto c = payments();
    c.http_listen = c.health_listen = "127.0.0.1:8080";
    CHECK(contains(complaint(c), "are the same address, 127.0.0.1:8080"));
    c.health_listen = "127.0.0.1:8081";
    CHECK(complaint(c) == "");
    c.http_listen = c.health_listen = "127.0.0.1:0";
    CHECK(complaint(c) == "");
    c.http_listen = c.health_listen = "";
    CHECK(complaint(c) == "");
}

// A config that a program fills itself goes past the table of settings: nothing else would refuse these.
TEST_CASE("what the environment could not have said is refused in code too")
{
    auto const refused = [](auto change) {
        auto c = payments();
        change(c);
        return complaint(c) != "";
    };
    CHECK(refused([](config& c) { c.lanes = 0; }));
    CHECK(refused([](config& c) { c.http_lanes = 0; }));
    CHECK(refused([](config& c) { c.lanes = c.prefetch = 0; }));
    CHECK(refused([](config& c) { c.relay_batch_max = 0; }));
    CHECK(refused([](config& c) { c.relay_poll = 0ms; }));
    CHECK(refused([](config& c) { c.lock_timeout = 0ms; }));
    CHECK(refused([](config& c) { c.statement_timeout = -1ms; }));
    CHECK(refused([](config& c) { c.drain = 0s; }));
}

TEST_CASE("--help names ten settings and says how to see the others")
{
    auto const text = config::help();
    std::size_t named = 0;
    for (auto const& s : worker_detail::settings()) {
        bool const is_usual = s.group == worker_detail::setting_group::usual;
        CHECK(contains(text, s.meaning) == is_usual);
        named += is_usual ? 1 : 0;
    }
    CHECK(named == 10);
    CHECK(contains(text, "--help-all"));
}

TEST_CASE("--help-all names every variable and every flag, and the files for secrets")
{
    auto const text = config::help(true);
    for (auto const& s : worker_detail::settings()) {
        CHECK(contains(text, s.variable));
        CHECK(contains(text, s.flag));
        CHECK(contains(text, s.meaning));
    }
    CHECK(contains(text, "DATABASE_URL_FILE"));
    CHECK(contains(text, "AMQP_URL_FILE"));
    CHECK(contains(text, "[4]"));
}

TEST_CASE("a collector's address, a share and a log's form are checked at start")
{
    CHECK(contains(complaint_with("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector"), "http://127.0.0.1:4318"));
    for (std::string const bad : {"1.1", "-0.1", "nan", "half", "0.5x"})
        CHECK(contains(complaint_with("OTEL_TRACES_SAMPLER_ARG", bad), "a number from 0 to 1"));
    CHECK(worker_detail::from({{"OTEL_TRACES_SAMPLER_ARG", "0"}}, {}).trace_ratio == 0);
    CHECK(contains(complaint_with("SKALD_LOG_FORMAT", "JSON"), "text or json"));
    CHECK(worker_detail::from({{"OTEL_SERVICE_NAME", "others have it"}}, {}).otlp_endpoint.empty());
    CHECK(worker_detail::from({{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}, {})
              .otlp_endpoint.empty());  // OpenTelemetry: as if it were not there
    CHECK(worker_detail::from({{"AWS_SESSION_TOKEN", ""}, {"AWS_REGION", ""}}, {}).s3_token.empty());  // so does AWS
}

TEST_CASE("a flag is named after its variable")
{
    for (auto const& s : worker_detail::settings()) {
        if (s.flag.empty() || s.flag == "--listen") continue;  // short for SKALD_HTTP_LISTEN, as config.hpp says
        std::string expected;
        for (char const c : s.flag.substr(2)) expected += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
        // OpenTelemetry's settings have its names, which are the same for every service of a system.
        CHECK(s.variable == (expected.starts_with("OTEL_") ? expected : "SKALD_" + expected));
    }
}
