// The order saga over real databases, stepped by hand: the way forward, the way back, and every delivery again.
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <thread>

using skald::test::stepped_shop;

namespace {

constexpr auto completed = "o-1|confirmed / 900 o-1|charge|1 / 4 o-1|1";

}  // namespace

TEST_CASE("an order goes through all services and every step happens once")
{
    stepped_shop s;
    s.order("1");
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga").empty());
    CHECK(s.parked().empty());
}

TEST_CASE("out of stock: the charge is refunded and the order cancelled, in reverse order")
{
    stepped_shop s;
    s.order("1", 6);
    s.run();
    CHECK(s.effects() == "o-1|cancelled / 1000 o-1|charge|1\no-1|refund|1 / 5 ");
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga") == "out of stock");
    auto const refund =
        s.at("payments").db.one("SELECT created_at FROM skald.idempotency WHERE step = 'charge-payment.compensate'");
    CHECK(s.at("orders").db.one("SELECT created_at > '" + refund +
                                "' FROM skald.idempotency WHERE step = 'create-order.compensate'") == "t");
}

TEST_CASE("insufficient funds: the order is cancelled and nothing else happened")
{
    stepped_shop s;
    s.order("1", 1, 5000);
    s.run();
    CHECK(s.effects() == "o-1|cancelled / 1000  / 5 ");
    CHECK(s.saga_status("1") == "compensated");
}

TEST_CASE("every delivery of a saga again, after its end, changes nothing")
{
    stepped_shop s;
    s.order("1");
    s.order("2", 6);
    s.run();
    auto const before = s.effects();
    for (auto const& m : s.transport().captured()) s.transport().inject(m);
    s.run();
    CHECK(s.effects() == before);
    CHECK(s.parked().empty());
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.saga_status("2") == "compensated");
}

TEST_CASE("every delivery twice in a row changes nothing")
{
    stepped_shop s;
    s.order("1");
    std::size_t seen = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (auto const* name : {"orders", "payments", "shipping"}) {
            moved = s.at(name).relay_due() > 0 || moved;
            auto const sent = s.transport().captured();
            for (; seen < sent.size(); ++seen) s.transport().inject(sent[seen]);
            while (s.at(name).settle_one()) moved = true;
        }
    }
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a delivery that eight lanes get at once has one effect")
{
    stepped_shop s;
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").settle_one();
    s.at("orders").relay_due();
    auto const charge = s.last_sent("charge-payment");

    std::vector<std::jthread> lanes;
    for (int i = 0; i < 8; ++i)
        lanes.emplace_back([&] { s.at("payments").settle_apart(skald::test::simulation::delivery_of(charge)); });
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
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").settle_one();
    s.at("orders").relay_due();
    s.at("payments").settle_one();
    s.at("payments").relay_due();
    while (s.at("orders").settle_one()) continue;
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

TEST_CASE("a paused saga waits, and goes on when it may")
{
    stepped_shop s;
    s.at("payments").db.run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', '1', 'orders', 'pause')");
    s.order("1");
    s.run();
    CHECK(s.effects() == "o-1|pending / 1000  / 5 ");
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox") == "1");
    s.at("payments").db.run("DELETE FROM skald.control");
    s.at("payments").make_due();
    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("S5: a cancelled saga walks back from where the cancel met it")
{
    stepped_shop s;
    s.at("shipping")
        .db.run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', '1', 'orders', 'cancel')");
    s.order("1");
    s.run();
    CHECK(s.effects() == "o-1|cancelled / 1000 o-1|charge|1\no-1|refund|1 / 5 ");
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("shipping").db.one("SELECT status FROM skald.idempotency") == "cancelled");
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
