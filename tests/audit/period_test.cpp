#include "audit/period.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;

namespace {

core::instant at(char const* text)
{
    return audit::read_time("--since", text);
}

}  // namespace

TEST_CASE("a time is a date or an instant in UTC, and nothing else")
{
    CHECK(core::write_instant(at("2026-11-01")) == "2026-11-01T00:00:00.000000Z");
    CHECK(core::write_instant(at("2026-11-01T12:30:00Z")) == "2026-11-01T12:30:00.000000Z");
    CHECK(core::write_instant(at("2026-11-01T12:30:00.500000Z")) == "2026-11-01T12:30:00.500000Z");
    for (auto const* text : {"", "2026-11-01T12:30:00.5Z", "yesterday", "2026-11-31", "2026-11-01T12:30:00",
                             "2026-11-01T12:30:00+01:00", "01.11.2026"})
        CHECK_THROWS_AS(at(text), configuration_error);
}

TEST_CASE("what is younger than twice the grace period is left to the next audit")
{
    auto const now = at("2026-11-10T12:00:00Z");
    auto const free = audit::make_period({}, {}, 5min, now);
    CHECK(free.until == at("2026-11-10T11:50:00Z"));
    CHECK(free.since == at("2026-11-08T11:50:00Z"));
    CHECK(audit::make_period({}, at("2026-11-11"), 5min, now).until == free.until);
    auto const past = audit::make_period(at("2026-11-01"), at("2026-11-02"), 5min, now);
    CHECK(past.widened(1).since == at("2026-10-31T23:55:00Z"));
    CHECK(past.widened(2).until == at("2026-11-02T00:10:00Z"));
    CHECK_THROWS_AS(audit::make_period(at("2026-11-02"), at("2026-11-01"), 5min, now), configuration_error);
    CHECK_THROWS_AS(audit::make_period(at("2026-11-10T11:55:00Z"), {}, 5min, now), configuration_error);
}
