// What follows from a transaction of steps that did not commit.
#include "runtime/policy.hpp"

#include <doctest/doctest.h>

using skald::runtime::contended_max;
using skald::runtime::failure;
using skald::runtime::lost_max;
using skald::runtime::react;
using skald::runtime::reaction;
using skald::runtime::suspect_max;

TEST_CASE("alone, what the step did is recorded; among several, all run again so that the one can be undone alone")
{
    CHECK(react(failure::member_ended, {1, 0, false}) == reaction::record);
    CHECK(react(failure::member_ended, {2, 0, false}) == reaction::guard_each);
    CHECK(react(failure::member_ended, {.members = 2, .took_long = true}) == reaction::each_alone);
    CHECK(react(failure::member_ended, {.members = 1, .took_long = true}) == reaction::record);
}

TEST_CASE("whoever was in another's way is tried again, several as well, and it costs no attempt")
{
    for (std::size_t const members : {1, 2, 64})
        for (int const before : {0, 1, contended_max - 1})
            CHECK(react(failure::contended, {members, before, false}) == reaction::again);
}

TEST_CASE("what is rolled back again and again is seen in the end: it counts as an attempt")
{
    CHECK(react(failure::contended, {1, contended_max, false}) == reaction::record);
    CHECK(react(failure::contended, {2, contended_max, false}) == reaction::each_alone);
    CHECK(react(failure::suspect, {1, suspect_max - 1, false}) == reaction::again);
    CHECK(react(failure::suspect, {1, suspect_max, false}) == reaction::record);
}

TEST_CASE("a transaction that was to record an end is never answered by recording one")
{
    for (auto const what : {failure::contended, failure::suspect, failure::connection_lost, failure::in_doubt,
                            failure::transaction_ended, failure::refused}) {
        CAPTURE(skald::runtime::name_of(what));
        CHECK(react(what, {1, 1000, true}) == reaction::again);
    }
}

TEST_CASE("whatever breaks several together, each finds out alone whether it was the one")
{
    for (auto const what : {failure::in_flight, failure::suspect, failure::connection_lost, failure::in_doubt,
                            failure::transaction_ended, failure::refused}) {
        CAPTURE(skald::runtime::name_of(what));
        CHECK(react(what, {2, 0, false}) == reaction::each_alone);
    }
}

TEST_CASE("a connection that is lost costs no attempt, until it was lost too often for one delivery alone")
{
    for (auto const what : {failure::connection_lost, failure::in_doubt}) {
        CAPTURE(skald::runtime::name_of(what));
        for (int lost = 0; lost < lost_max; ++lost) CHECK(react(what, {.lost = lost}) == reaction::again);
        CHECK(react(what, {.lost = lost_max}) == reaction::record);
        CHECK(react(what, {.members = 2, .lost = lost_max}) == reaction::each_alone);
        CHECK(react(what, {.is_recording = true, .lost = lost_max}) == reaction::again);
    }
}

TEST_CASE("of a delivery that came back often, fewer lost connections are enough")
{
    for (auto const what : {failure::connection_lost, failure::in_doubt}) {
        CAPTURE(skald::runtime::name_of(what));
        CHECK(react(what, {.lost = 4, .returns = 7}) == reaction::again);
        CHECK(react(what, {.lost = 4, .returns = 8}) == reaction::record);
        CHECK(react(what, {.lost = 0, .returns = 39}) == reaction::again);
        CHECK_MESSAGE(react(what, {.lost = 0, .returns = 40}) == reaction::record, "ten short of the brokers' limit");
        CHECK(react(what, {.is_recording = true, .returns = 50}) == reaction::again);
        CHECK(react(what, {.members = 2, .returns = 50}) == reaction::each_alone);
    }
}

TEST_CASE("a session that was silent for too long would be so again: it counts at once, of one alone")
{
    skald::ports::fault lost{skald::ports::fault_kind::connection_lost, ""};
    for (auto const kind : {skald::ports::fault_kind::connection_lost, skald::ports::fault_kind::in_doubt}) {
        lost.kind = kind;
        lost.outlasted_silence = true;
        CHECK(skald::runtime::failure_of(lost, true) == failure::silent);
        CHECK(skald::runtime::failure_of(lost, false) != failure::silent);
        lost.outlasted_silence = false;
        CHECK(skald::runtime::failure_of(lost, true) != failure::silent);
    }
    CHECK(react(failure::silent, {}) == reaction::record);
    CHECK(react(failure::silent, {.members = 2}) == reaction::each_alone);
    CHECK(react(failure::silent, {.is_recording = true}) == reaction::again);
}

TEST_CASE("what the database can't do now is nobody's doing: it is tried again, for as long as it takes")
{
    for (std::size_t const members : {1, 2, 64})
        CHECK(react(failure::unavailable, {members, 1'000'000, false}) == reaction::again);
}

TEST_CASE("what fails at COMMIT counts once it is known that the step had put it off until then")
{
    CHECK(react(failure::refused, {.finished = false}) == reaction::finish_first);
    CHECK(react(failure::refused, {.finished = true}) == reaction::record);
    CHECK(react(failure::refused, {.is_recording = true, .finished = true}) == reaction::again);
}

TEST_CASE("what a step did to its own transaction is its doing")
{
    CHECK(react(failure::transaction_ended, {1, 0, false}) == reaction::record);
}
