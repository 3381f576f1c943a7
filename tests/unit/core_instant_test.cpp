#include <doctest/doctest.h>

#include "core/instant.hpp"

using namespace skald::core;
using namespace std::chrono_literals;

TEST_CASE("a point in time is read and written in one form, to the microsecond")
{
    for (auto const* text :
         {"2026-01-31T12:00:00.000000Z", "1970-01-01T00:00:00.000001Z", "2024-02-29T23:59:59.999999Z",
          "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z"}) {
        auto const at = parse_instant(text);
        REQUIRE(at);
        CHECK(write_instant(*at) == text);
    }
    CHECK(parse_instant("1970-01-01T00:00:01.500000Z") == instant{1'500'000us});
}

TEST_CASE("a time that the form has no room for is written as the first or the last that it has, and read")
{
    CHECK(write_instant(instant::max()) == "9999-12-31T23:59:59.999999Z");
    CHECK(write_instant(instant::min()) == "0001-01-01T00:00:00.000000Z");
    CHECK(parse_instant(write_instant(instant::max())));
    CHECK(parse_instant(write_instant(instant::min())));
}

TEST_CASE("what is not exactly of that form, or no time that exists, is refused")
{
    for (auto const* text :
         {"", "2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.0000000Z",
          "2026-01-31T12:00:00.000000+00", "2026-01-31T12:00:00.000000z", "2026-01-31 12:00:00.000000Z",
          " 2026-01-31T12:00:00.00000Z", "2026-02-29T12:00:00.000000Z", "2026-13-01T12:00:00.000000Z",
          "2026-00-10T12:00:00.000000Z", "2026-01-32T12:00:00.000000Z", "2026-01-31T24:00:00.000000Z",
          "2026-01-31T12:60:00.000000Z", "2026-01-31T12:00:60.000000Z", "0000-01-01T00:00:00.000000Z",
          "2026-01-31T12:00:00.00000-Z", "+026-01-31T12:00:00.000000Z"}) {
        CAPTURE(text);
        CHECK(!parse_instant(text));
    }
}

TEST_CASE("a wait ends at the deadline at the latest, and behind it not at all")
{
    instant const now{1h};
    CHECK(wait_within({}, now, 5s) == 5s);
    CHECK(wait_within(now + 10s, now, 5s) == 5s);
    CHECK(wait_within(now + 3s, now, 5s) == 3s);
    CHECK(wait_within(now, now, 5s) == 0s);
    CHECK(wait_within(now - 1h, now, 5s) == 0s);
    CHECK_MESSAGE(wait_within(now + 1us, now, 5s) == 1ms, "rounded up: a moment early would find it not passed");
}
