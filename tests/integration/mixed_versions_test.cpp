// Services of two versions share a saga, over a real broker: what the old ones do not know goes through them.
#include "admin/parked_deliveries.hpp"
#include "support/running_service.hpp"
#include "support/trips.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

struct travel_agency
{
    travel_agency(std::string const& key, int bags_max)
    {
        for (auto const* db : {&hotels.db, &flights.db}) db->run(seen_table);
        office.db.run("CREATE TABLE paper (n int)");
        hotels.host(new_plan::all, new_plan::book_hotel, book_hotel{});
        cars.host(old_plan::all, old_plan::rent_car, rent_car{});
        flights.host(new_plan::all, new_plan::book_flight, book_flight{bags_max});
        office.host(old_plan::all, old_plan::send_papers, send_papers{});
        hotels.host(new_plan::all, new_plan::close_trip, close_trip{});
        for (auto* one : {&hotels, &cars, &flights, &office}) one->start();

        pqxx::connection c{hotels.db.url()};
        pqxx::work tx{c};
        skald::start(tx, new_plan::all, two_legs(), {.key = key});
        tx.commit();
    }

    bool comes_to(std::string const& status)
    {
        return skald::testing::wait_until([&] { return hotels.db.one("SELECT status FROM skald.saga") == status; },
                                          30s);
    }

    running_service hotels{"hotels"}, cars{"cars"}, flights{"flights"}, office{"office"};
};

}  // namespace

TEST_CASE(
    "what an old service does not know goes through it over the broker, and through its being parked and put back")
{
    travel_agency agency{"trip-9", 9};
    REQUIRE(agency.comes_to("stuck"));
    CHECK(agency.office.db.rows("SELECT reason FROM skald.parked") == "attempts_exhausted");

    agency.office.db.run("INSERT INTO paper VALUES (1)");
    skald::postgres::connection c{{.url = agency.office.db.url()}};
    CHECK_FALSE(skald::admin::replay_parked(c, skald::admin::newest_parked(c).value(), "eve", false));
    CHECK(agency.comes_to("completed"));
    CHECK(agency.flights.db.one(seen_rows) == "flight: 11 vip 9 Rome/22 Oslo/11");
    CHECK(agency.hotels.db.one(seen_rows) == "close: 111 vip 9 Rome/22 Oslo/11");
}

TEST_CASE("a new service's rule for what an old one does not know sends the saga back over the broker, with all of it")
{
    travel_agency agency{"trip-2", 2};
    CHECK(agency.comes_to("compensated"));
    CHECK(agency.hotels.db.one("SELECT reason FROM skald.saga") == "too many bags: 9");
    CHECK(agency.hotels.db.one(seen_rows) == "undo hotel: 1 vip 9 Rome/22 Oslo/11");
}
