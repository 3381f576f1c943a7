// What every store of large bodies keeps (ports/body_store.hpp), whatever it is made of.
//
// A test file makes a place and says SKALD_BODY_STORE_CLAIMS(its_place) in the namespace skald::test::body_claims. A
// place is new, and has:
//   skald::ports::body_store& orders();     // one store, as two services see it
//   skald::ports::body_store& payments();
//   void age(core::body_reference const&, std::chrono::seconds by);       // as if that long had passed
//   void rewrite(core::body_reference const&, std::string const& bytes);  // behind the store's back
//   std::size_t copies(core::body_reference const&);                      // how often it is there
#pragma once

#include "core/text.hpp"
#include "ports/body_store.hpp"
#include "ports/fault.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#define SKALD_BODY_STORE_CLAIMS(place)                                                                                 \
    TEST_CASE_TEMPLATE_INVOKE(bodies_are_shared, place);                                                               \
    TEST_CASE_TEMPLATE_INVOKE(bodies_are_verified, place);                                                             \
    TEST_CASE_TEMPLATE_INVOKE(bodies_are_purged, place);                                                               \
    TEST_CASE_TEMPLATE_INVOKE(bodies_meet_a_purge, place);                                                             \
    TEST_CASE_TEMPLATE_INVOKE(references_meet_a_purge, place);                                                         \
    TEST_CASE_TEMPLATE_INVOKE(purges_meet, place)

namespace skald::test::body_claims {

using namespace std::chrono_literals;

inline constexpr auto month = std::chrono::hours{24 * 30};
inline std::string const large(3'000'000, 'x');

inline bool used(core::body_reference const&)
{
    return true;
}
inline bool unused(core::body_reference const&)
{
    return false;
}

/// What nobody has referred to for a month.
inline std::size_t purge(ports::body_store& from, std::size_t most,
                         std::function<bool(core::body_reference const&)> const& is_in_use)
{
    ports::purge_place at;
    return from.purge(month, most, is_in_use, at);
}

inline ports::body_fault::kind fault_of(ports::body_store& from, core::body_reference const& what)
{
    try {
        from.read(what);
    }
    catch (ports::body_fault const& met) {
        CHECK(std::string{met.what()}.find(what.name()) != std::string::npos);
        CHECK(std::string{met.what()}.find(from.name()) != std::string::npos);
        return met.what_kind;
    }
    FAIL("it was read");
    return {};
}

/// Until the store is reached, as Skald does: a store may say that it was busy.
template <class Act>
auto reached(Act act)
{
    for (int tries = 0;; ++tries) try {
            return act();
        }
        catch (ports::fault const& met) {
            if (met.kind != ports::fault_kind::unavailable || tries == 20) throw;
        }
}

TEST_CASE_TEMPLATE_DEFINE("what one service keeps, another reads, and it is there once", Place, bodies_are_shared)
{
    Place at;
    auto const what = core::reference_to(large, at.orders().name());
    at.orders().keep(what, large);
    at.payments().keep(what, large);
    CHECK(at.payments().read(what) == large);
    CHECK(at.copies(what) == 1);
    at.age(what, 2h);
    CHECK(at.payments().hold(what));
    CHECK(at.copies(what) == 1);
    CHECK(at.orders().read(what) == large);
    auto const empty = core::reference_to("", "");
    at.orders().keep(empty, "");
    CHECK(at.orders().read(empty).empty());
}

TEST_CASE_TEMPLATE_DEFINE("a body that is missing or damaged is known, and what is too short is written again", Place,
                          bodies_are_verified)
{
    using kind = ports::body_fault::kind;
    Place at;
    at.orders().keep(core::reference_to("other", ""), "other");
    auto const what = core::reference_to(large, at.orders().name());
    CHECK(fault_of(at.orders(), what) == kind::missing);
    CHECK(!at.orders().hold(what));
    at.orders().keep(what, large);
    at.rewrite(what, large.substr(1));
    CHECK(fault_of(at.orders(), what) == kind::damaged);
    at.orders().keep(what, large);
    CHECK(at.orders().read(what) == large);
    at.rewrite(what, 'y' + large.substr(1));
    CHECK(fault_of(at.orders(), what) == kind::damaged);
}

TEST_CASE_TEMPLATE_DEFINE("a purge takes what nobody refers to, and only when it is old", Place, bodies_are_purged)
{
    Place at;
    auto const what = core::reference_to(large, at.orders().name());
    at.orders().keep(what, large);
    at.payments().hold(what);
    CHECK(purge(at.orders(), 10, unused) == 0);
    at.age(what, month * 2);
    SUBCASE("a service that still refers to it keeps it, and as if it were new")
    {
        CHECK(purge(at.orders(), 10, used) == 0);
        CHECK(purge(at.payments(), 10, unused) == 0);
        CHECK(at.payments().read(what) == large);
    }
    SUBCASE("one that has not looked yet holds it, however old it is")
    {
        CHECK(purge(at.orders(), 10, unused) == 0);
        CHECK(at.orders().read(what) == large);
        CHECK(purge(at.payments(), 10, unused) == 1);
        CHECK(fault_of(at.orders(), what) == ports::body_fault::kind::missing);
        CHECK(at.copies(what) == 0);
    }
    SUBCASE("no more than it is told to at a time")
    {
        auto const other = core::reference_to("other", "");
        at.orders().keep(other, "other");
        at.age(other, month * 2);
        purge(at.payments(), 10, unused);
        CHECK(purge(at.orders(), 1, unused) + purge(at.orders(), 1, unused) == 2);
    }
    SUBCASE("one that is told to end goes on behind what it has looked at")
    {
        auto const other = core::reference_to("other", "");
        at.orders().keep(other, "other");
        at.age(other, month * 2);
        purge(at.payments(), 10, unused);
        ports::purge_place place{.is_over = [] { return true; }};
        std::size_t gone = 0, calls = 0;
        do {
            auto const last = place.after;
            auto const now = at.orders().purge(month, 10, unused, place);
            CHECK(now <= 1);
            gone += now;
            REQUIRE((place.after.empty() || place.after > last));
        } while (!place.after.empty() && ++calls < 10);
        CHECK(gone == 2);
    }
}

TEST_CASE_TEMPLATE_DEFINE("what is kept while a purge runs is there afterwards", Place, bodies_meet_a_purge)
{
    Place at;
    auto const what = core::reference_to("small", at.orders().name());
    for (int round = 0; round < 50; ++round) {
        at.orders().keep(what, "small");
        at.age(what, month * 2);
        std::jthread purging{[&] { reached([&] { return purge(at.orders(), 10, unused); }); }};
        reached([&] { at.orders().keep(what, "small"); });
        purging.join();
        REQUIRE(at.orders().read(what) == "small");
    }
}

// Of the hold and the purge one is first: either it is held and there, or it was gone and hold() says so.
TEST_CASE_TEMPLATE_DEFINE("an old body that another service refers to while a purge runs stays, or was never held",
                          Place, references_meet_a_purge)
{
    Place at;
    auto const what = core::reference_to("small", at.orders().name());
    for (int round = 0; round < 50; ++round) {
        at.orders().keep(what, "small");
        at.age(what, month * 2);
        std::jthread purging{[&] { reached([&] { return purge(at.orders(), 10, unused); }); }};
        bool const is_held = reached([&] { return at.payments().hold(what); });
        purging.join();
        if (!is_held) {
            REQUIRE(fault_of(at.payments(), what) == ports::body_fault::kind::missing);
            continue;
        }
        // For as long as it is referred to, too, whoever else purges.
        at.age(what, month * 2);
        REQUIRE(purge(at.orders(), 10, unused) == 0);
        REQUIRE(at.payments().read(what) == "small");
        purge(at.payments(), 10, unused);
    }
}

TEST_CASE_TEMPLATE_DEFINE("what one purge finds in use, another at the same time does not take", Place, purges_meet)
{
    Place at;
    auto const what = core::reference_to("small", at.orders().name());
    at.orders().keep(what, "small");
    at.payments().keep(what, "small");
    for (int round = 0; round < 20; ++round) {
        at.age(what, month * 2);
        std::jthread other{[&] { reached([&] { return purge(at.orders(), 10, unused); }); }};
        reached([&] { return purge(at.payments(), 10, used); });
        other.join();
        REQUIRE(at.payments().read(what) == "small");
    }
}

}  // namespace skald::test::body_claims
