// The arguments of `SERVICE --rehearse`, which are left for the settings, and its exit codes.
#include "worker/rehearsal_command.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

using skald::worker_detail::take_rehearsal;

TEST_CASE("a service that is not to rehearse keeps all its arguments")
{
    std::vector<std::string> arguments{"--lanes", "2", "--log-format=json"};
    CHECK_FALSE(take_rehearsal(arguments));
    CHECK(arguments.size() == 3);
}

TEST_CASE("what belongs to a rehearsal is refused without one")
{
    for (std::string const one : {"--json", "--data", "--data=/tmp/data", "--scope"}) {
        std::vector<std::string> arguments{"--lanes", "2", one};
        CHECK_THROWS_WITH_AS(take_rehearsal(arguments), doctest::Contains("goes with --rehearse KEY:STEP"),
                             skald::configuration_error);
    }
}

TEST_CASE("what belongs to a rehearsal is taken out of the arguments, and the settings are left")
{
    std::vector<std::string> arguments{"--lanes", "2", "--rehearse", "a:b:pay.compensate", "--json", "--scope=shop"};
    auto const command = take_rehearsal(arguments);
    REQUIRE(command);
    CHECK(command->what.key.key == "a:b");
    CHECK(command->what.key.guarded_step() == "pay.compensate");
    CHECK(command->what.scope == "shop");
    CHECK(command->as_json);
    CHECK(arguments == std::vector<std::string>{"--lanes", "2"});
}

TEST_CASE("a rehearsal of what is no step's key is refused with the form that is expected")
{
    std::vector<std::string> arguments{"--rehearse", "order-1"};
    CHECK_THROWS_WITH_AS(take_rehearsal(arguments), doctest::Contains("KEY:STEP"), skald::configuration_error);
    arguments = {"--rehearse"};
    CHECK_THROWS_WITH_AS(take_rehearsal(arguments), doctest::Contains("needs a value"), skald::configuration_error);
    arguments = {"--rehearse", "1:pay", "--data", "/nowhere"};
    CHECK_THROWS_WITH_AS(take_rehearsal(arguments), doctest::Contains("/nowhere"), skald::configuration_error);
}

TEST_CASE("data that is no JSON, or that no saga can have, is refused with its file")
{
    auto pattern = (std::filesystem::temp_directory_path() / "skald-data.XXXXXX").string();
    ::close(::mkstemp(pattern.data()));
    for (std::string const text : {"not JSON", "", R"({"id": "\u0000"})"}) {
        CAPTURE(text);
        std::ofstream{pattern} << text << '\n';
        std::vector<std::string> arguments{"--rehearse", "1:pay", "--data", pattern};
        CHECK_THROWS_WITH_AS(take_rehearsal(arguments), doctest::Contains("is no JSON that a saga's data may be"),
                             skald::configuration_error);
    }
    std::filesystem::remove(pattern);
}

TEST_CASE("a rehearsal exits with 1 if its database is away, and fails if its report can't be written")
{
    skald::service of{"payments"};
    skald::worker_detail::rehearsal_command const command{
        .what = {.key = skald::core::parse_derived_key("1:pay").value()}};
    skald::config settings;
    settings.database_url = "host=/nowhere";
    CHECK(skald::worker_detail::run_rehearsal(command, of, settings) == 1);
    std::fflush(stdout);
    int const out = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY);
    ::dup2(full, STDOUT_FILENO);
    CHECK_THROWS_WITH_AS(skald::worker_detail::run_rehearsal(command, of, settings),
                         doctest::Contains("the report can't be written: No space left"), std::runtime_error);
    ::dup2(out, STDOUT_FILENO);
    ::close(full);
    ::close(out);
}
