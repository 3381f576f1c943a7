// What follows from a transaction of steps that did not commit.
#include "runtime/policy.hpp"

#include <doctest/doctest.h>

using skald::runtime::contended_max;
using skald::runtime::failure;
using skald::runtime::react;
using skald::runtime::reaction;
using skald::runtime::suspect_max;

TEST_CASE("alone, what the step did is recorded; among several, all run again so that the one can be undone alone")
{
    CHECK(react(failure::member_ended, {1, 0, false}) == reaction::record);
    CHECK(react(failure::member_ended, {2, 0, false}) == reaction::guard_each);
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
    for (auto const what : {failure::suspect, failure::connection_lost, failure::in_doubt, failure::transaction_ended,
                            failure::refused}) {
        CAPTURE(skald::runtime::name_of(what));
        CHECK(react(what, {2, 0, false}) == reaction::each_alone);
    }
}

TEST_CASE("a connection that is lost costs no attempt, however often")
{
    CHECK(react(failure::connection_lost, {1, 1000, false}) == reaction::again);
    CHECK(react(failure::in_doubt, {1, 1000, false}) == reaction::again);
}

TEST_CASE("what a step did to its own transaction, and what a constraint refuses at COMMIT, is its doing")
{
    CHECK(react(failure::transaction_ended, {1, 0, false}) == reaction::record);
    CHECK(react(failure::refused, {1, 0, false}) == reaction::record);
}
