// Services of two versions share a saga: what the old ones do not know goes through them.
#include "tests/support/trips.hpp"

#include <skald/testing.hpp>

#include <doctest/doctest.h>

using namespace skald::test;

namespace {

std::unique_ptr<skald::testing::harness> make_office(int bags_max)
{
    auto made = std::make_unique<skald::testing::harness>();
    skald::service hotels{"hotels"}, cars{"cars"}, flights{"flights"}, office{"office"};
    for (auto* s : {&hotels, &flights}) s->migrate("0001_seen", seen_table);
    hotels.host(new_plan::all, new_plan::book_hotel, book_hotel{})
        .host(new_plan::all, new_plan::close_trip, close_trip{});
    cars.host(old_plan::all, old_plan::rent_car, rent_car{});
    flights.host(new_plan::all, new_plan::book_flight, book_flight{bags_max});
    office.migrate("0001_paper", "CREATE TABLE paper (n int)")
        .host(old_plan::all, old_plan::send_papers, send_papers{});
    made->add(std::move(hotels)).add(std::move(cars)).add(std::move(flights)).add(std::move(office));
    made->given("office", "INSERT INTO paper VALUES (1)");
    return made;
}

}  // namespace

TEST_CASE("what old services do not know of a saga's data passes through them, in elements that they move too")
{
    auto const kit = make_office(9);
    auto const key = kit->start(new_plan::all, two_legs());
    kit->run_to_the_end();
    CHECK(kit->saga_is(key, "completed"));
    CHECK(kit->ask("flights", seen_rows) == skald::testing::rows{"flight: 11 vip 9 Rome/22 Oslo/11"});
    CHECK(kit->ask("hotels", seen_rows) == skald::testing::rows{"close: 111 vip 9 Rome/22 Oslo/11"});
}

TEST_CASE(
    "a rule of a new service holds for what an old one in between has never heard of, and the way back has it too")
{
    auto const kit = make_office(2);
    auto const key = kit->start(new_plan::all, two_legs());
    kit->run_to_the_end();
    CHECK(kit->saga_is(key, "compensated"));
    CHECK(kit->saga(key).reason == "too many bags: 9");
    CHECK(kit->ask("hotels", seen_rows) == skald::testing::rows{"undo hotel: 1 vip 9 Rome/22 Oslo/11"});
}

TEST_CASE("what an old service does not know is there after its retries, its crashes and with every message twice")
{
    auto const kit = make_office(9);
    kit->fail("rent-car", 2);
    kit->fail("send-papers", 1);
    kit->crash_at(skald::testing::crash_point::before_commit, "rent-car");
    auto const key = kit->start(new_plan::all, two_legs());
    kit->run_to_the_end();
    for (auto const& one : kit->sent()) kit->replay(one);
    kit->run_to_the_end();
    CHECK(kit->saga_is(key, "completed"));
    CHECK(kit->ask("flights", seen_rows) == skald::testing::rows{"flight: 11 vip 9 Rome/22 Oslo/11"});
    CHECK(kit->ask("hotels", seen_rows) == skald::testing::rows{"close: 111 vip 9 Rome/22 Oslo/11"});
}
