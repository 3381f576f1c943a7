// Log lines: one event is one line, whatever somebody else put into its values.
#include <doctest/doctest.h>

#include "core/log.hpp"
#include "unit/seeded.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

using namespace skald::core;
using namespace std::string_literals;

namespace {

std::string line(std::string_view time, severity level, std::string_view service, std::string_view event,
                 std::initializer_list<log_field> fields)
{
    return log_line(time, level, service, event, std::span{fields.begin(), fields.size()});
}

std::string line_with(std::string_view value)
{
    return line("2026-01-31T12:00:00.000Z", severity::info, "payments", "step.completed", {{"key", value}});
}

}  // namespace

TEST_CASE("a line is the time, the level, the service, the event and its fields")
{
    CHECK(line("2026-01-31T12:00:00.000Z", severity::warning, "payments", "step.failed",
               {{"key", "order-1:charge"}, {"attempt", 2}, {"error", "no route to host"}}) ==
          "2026-01-31T12:00:00.000Z warning payments step.failed key=order-1:charge attempt=2 "
          "error=\"no route to host\"\n");
    CHECK(line("t", severity::debug, "s", "e", {}) == "t debug s e\n");
    CHECK(line("t", severity::error, "s", "e", {}) == "t error s e\n");
}

TEST_CASE("a severity is read by its exact name, and anything else is refused with what would be right")
{
    CHECK(parse_severity("debug") == severity::debug);
    CHECK(parse_severity("info") == severity::info);
    CHECK(parse_severity("warning") == severity::warning);
    CHECK(parse_severity("error") == severity::error);
    for (auto const& bad : {""s, "Info"s, "warn"s, "info "s, "0"s}) {
        CAPTURE(bad);
        CHECK_THROWS_WITH_AS(parse_severity(bad), "debug, info, warning or error", std::invalid_argument);
    }
}

TEST_CASE("whole numbers are written as they are")
{
    CHECK(line("t", severity::info, "s", "e", {{"n", std::numeric_limits<std::int64_t>::min()}}) ==
          "t info s e n=-9223372036854775808\n");
    CHECK(line("t", severity::info, "s", "e", {{"n", std::uint64_t{7}}}) == "t info s e n=7\n");
}

TEST_CASE("a value is quoted where it has to be, and only there")
{
    CHECK(log_value("order-1:charge.compensate/x?y") == "order-1:charge.compensate/x?y");
    CHECK(log_value("") == R"("")");
    CHECK(log_value("a b") == R"("a b")");
    CHECK(log_value("a=b") == R"("a=b")");
    CHECK(log_value("a\"b") == R"("a\"b")");
    CHECK(log_value("a\\b") == R"("a\\b")");
    CHECK(log_value("a\nb") == R"("a\nb")");
    CHECK(log_value("a\rb\t\0"s) == R"("a\x0db\x09\x00")");
    CHECK(log_value("\x1b[31m\x7f") == R"("\x1b[31m\x7f")");
    CHECK(log_value("\xe2\x82\xac\xff") == R"("\xe2\x82\xac\xff")");
}

TEST_CASE("a value can't forge a second line or a second field")
{
    CHECK(line_with("x\n2026-01-31T12:00:00.000Z info payments saga.completed") ==
          "2026-01-31T12:00:00.000Z info payments step.completed "
          "key=\"x\\n2026-01-31T12:00:00.000Z info payments saga.completed\"\n");
    CHECK(line_with("x error=y").ends_with("key=\"x error=y\"\n"));
    CHECK(line_with("x\" error=\"y").ends_with("key=\"x\\\" error=\\\"y\"\n"));
}

TEST_CASE("whatever bytes a value has, the line is one line of printable ASCII with closed quotes")
{
    skald::test::seeded random{9};
    for (int i = 0; i < 5'000; ++i) {
        auto const line = line_with(random.bytes(0, 40));
        CAPTURE(line);
        REQUIRE(std::ranges::count(line, '\n') == 1);
        REQUIRE(line.ends_with('\n'));
        REQUIRE(std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= 0x20 && c < 0x7f; }));

        std::size_t quotes = 0;
        for (std::size_t at = 0; at < line.size(); ++at) {
            if (line[at] == '\\') ++at;
            else quotes += line[at] == '"';
        }
        REQUIRE(quotes % 2 == 0);
    }
}

TEST_CASE("a value is cut at 1,000 bytes, and says so")
{
    CHECK(log_value(std::string(1'000, 'x')) == std::string(1'000, 'x'));
    CHECK(log_value(std::string(1'001, 'x')) == "\"" + std::string(1'000, 'x') + "...\"");
    CHECK(log_value(std::string(1'000'000, '\n')).size() == 2 * 1'000 + 5);
}
