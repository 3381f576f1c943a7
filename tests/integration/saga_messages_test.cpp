// The messages of an order saga: what they say, and what becomes of one that comes too late, too often, or was forged.
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace skald::test;

TEST_CASE("a delivery that eight lanes get at once has one effect")
{
    stepped_shop s;
    auto const charge = s.order_up_to("charge-payment");

    std::vector<std::jthread> lanes;
    for (int i = 0; i < 8; ++i) lanes.emplace_back([&] { s.at("payments").process_apart(delivery_of(charge)); });
    lanes.clear();
    CHECK(s.at("payments").db.rows("SELECT kind, count(*) FROM charge GROUP BY 1") == "charge|1");
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox WHERE type = 'arrange-shipping'") == "1");

    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("a message that is published and not known to be is published again, and the guard absorbs it")
{
    stepped_shop s;
    s.transport().lose_next_confirms(3);
    s.order("1");
    for (int i = 0; i < 4; ++i) s.run();
    CHECK(s.effects() == completed);
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("another body under a key that was used is parked once, and the saga is unharmed")
{
    stepped_shop s;
    s.order("1");
    s.run();
    auto forged = s.last_sent("charge-payment");
    forged.body = R"({"id":"o-1","customer":"ann","sku":"pen","quantity":1,"cents":999})";
    for (int i = 0; i < 3; ++i) s.transport().inject(forged);
    s.run();
    CHECK(s.parked() == "payments|mismatch|1");
    CHECK(s.effects() == completed);
}

TEST_CASE("the home shows where a saga is while other services run it")
{
    stepped_shop s;
    s.order_up_to("charge-payment");
    s.at("payments").process_one();
    s.at("payments").relay_due();
    while (s.at("orders").process_one()) continue;
    CHECK(s.at("orders").db.rows("SELECT step, service, status FROM skald.progress") ==
          "charge-payment|payments|completed");
    CHECK(s.saga_status("1") == "running");
}

TEST_CASE("S1: a late report does not undo a later one, and nothing leaves a final state")
{
    stepped_shop s;
    s.order("1");
    s.run();
    auto report = s.last_sent("skald.progress");
    report.body = R"([{"scope":"","key":"1","step":"arrange-shipping","service":"shipping","status":"parked",)"
                  R"("attempts":9,"at":"2020-01-01T00:00:00Z","saga":"stuck","reason":"old news"}])";
    s.transport().inject(report);
    s.run();
    CHECK(s.at("orders").db.one("SELECT status FROM skald.progress WHERE step = 'arrange-shipping'") == "completed");
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("R21: a report that names a step twice is taken in, and the later one counts")
{
    stepped_shop s;
    s.order("1");
    s.run();
    auto report = s.last_sent("skald.progress");
    auto const member = [](char const* at, char const* attempts) {
        return std::string{
                   R"({"scope":"","key":"1","step":"charge-payment","service":"payments","status":"completed",)"} +
               R"("attempts":)" + attempts + R"(,"at":")" + at + R"("})";
    };
    report.body = '[' + member("2100-01-02T00:00:00Z", "3") + ',' + member("2100-01-01T00:00:00Z", "2") + ']';
    s.transport().inject(report);
    s.run();
    CHECK(s.parked().empty());
    CHECK(s.at("orders").db.one("SELECT attempts FROM skald.progress WHERE step = 'charge-payment'") == "3");
}

TEST_CASE("S12: what is sent and stored names things as the definition does, and no C++ type")
{
    stepped_shop s;
    s.order("1");
    CHECK(s.at("orders").db.one("SELECT definition || ' | ' || itinerary FROM skald.saga") ==
          "place-order | forward 1/4 create-order@orders=compensatable charge-payment@payments=compensatable "
          "arrange-shipping@shipping=pivot confirm-order@orders=retriable");
    s.run();
    auto const sent = s.last_sent("charge-payment");
    std::string text = sent.id + ' ' + sent.type + ' ' + sent.content_type;
    for (auto const& [name, value] : sent.headers) text += "\n" + name + ": " + value;
    CHECK(text ==
          "1:charge-payment charge-payment application/json\n"
          "x-attempt: 1\n"
          "x-idempotency-key: 1:charge-payment\n"
          "x-saga: place-order\n"
          "x-saga-home: orders\n"
          "x-saga-itinerary: forward 2/4 create-order@orders=compensatable charge-payment@payments=compensatable "
          "arrange-shipping@shipping=pivot confirm-order@orders=retriable\n"
          "x-saga-scope: \n"
          "x-saga-version: 1");
}

TEST_CASE("S2: a step that comes after its compensation does not run")
{
    stepped_shop s;
    s.order("1", 6);
    s.run();
    auto const undo = s.last_sent("create-order");  // the last one of that type is the compensation
    auto late = s.last_sent("charge-payment");
    REQUIRE(late.id == "1:charge-payment.compensate");

    stepped_shop fresh;
    fresh.note_started("1");
    fresh.transport().inject(late);
    fresh.run();
    for (auto const& m : s.transport().captured())
        if (m.id == "1:charge-payment") fresh.transport().inject(m);
    fresh.run();
    CHECK(fresh.at("payments").db.rows("SELECT * FROM charge").empty());
    CHECK(fresh.at("payments").db.one("SELECT status FROM skald.idempotency WHERE step = 'charge-payment'") ==
          "cancelled");
}
