// Every delivery of the example again: at once, many times together, and when the saga is long over.
#include <set>

#include "support/shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

/// All that the sagas did, and all that is known of them. Times are left out.
std::vector<table> everything(shop& s)
{
    return {s.orders_db.ask("SELECT * FROM customer_order ORDER BY id"),
            s.payments_db.ask("SELECT * FROM charge ORDER BY order_id, kind"),
            s.payments_db.ask("SELECT * FROM wallet ORDER BY customer"),
            s.shipping_db.ask("SELECT * FROM shipment ORDER BY order_id"),
            s.shipping_db.ask("SELECT * FROM stock ORDER BY sku"),
            s.orders_db.ask("SELECT scope, key, status, reason FROM skald.saga ORDER BY scope, key"),
            s.orders_db.ask("SELECT scope, key, step, status, attempts FROM skald.idempotency ORDER BY 1, 2, 3"),
            s.payments_db.ask("SELECT scope, key, step, status, attempts FROM skald.idempotency ORDER BY 1, 2, 3"),
            s.shipping_db.ask("SELECT scope, key, step, status, attempts FROM skald.idempotency ORDER BY 1, 2, 3"),
            s.orders_db.ask("SELECT scope, key, step, status, attempts FROM skald.progress ORDER BY 1, 2, 3")};
}

/// Three sagas, one for each way to end, with every delivery of theirs.
struct three_sagas
{
    shop s;
    amqp_hands hands{broker()};
    std::vector<raw_message> deliveries;

    void place()
    {
        hands.capture_everything();
        s.open();
        REQUIRE(s.order("good").status == 202);
        REQUIRE(s.order("poor", {.customer = "poor"}).status == 202);
        REQUIRE(s.order("rare", {.sku = "rare"}).status == 202);
    }
    void end_all()
    {
        REQUIRE(s.ends("good", "completed"));
        REQUIRE(s.ends("poor", "compensated"));
        REQUIRE(s.ends("rare", "compensated"));
        REQUIRE(s.outboxes_empty());
        REQUIRE(wait_until([&] { return s.orders_db.count("skald.progress") == 6; }));
    }
    void take()
    {
        for (auto& one : hands.take_captured()) deliveries.push_back(std::move(one));
    }
    void check_nothing_changed(std::vector<table> const& before)
    {
        CHECK(s.all_acked());
        s.close_in_order();
        CHECK(everything(s) == before);
        for (auto* database : s.databases()) CHECK(database->count("skald.outbox") == 0);
        CHECK(s.parked_in_all() == 0);
    }
};

}  // namespace

TEST_CASE("every delivery twice in a row, when the saga has ended, changes nothing")
{
    three_sagas t;
    t.place();
    t.end_all();
    t.take();
    std::set<std::string> keys;
    for (auto const& one : t.deliveries) keys.insert(one.header("x-idempotency-key"));
    // 3 forward and 3 back, charge-payment three times, arrange-shipping twice, confirm-order once, and the progress.
    CHECK(keys.size() >= 15);
    auto const before = everything(t.s);
    for (auto const& one : t.deliveries)
        for (int i = 0; i < 2; ++i) t.hands.send(one);
    t.check_nothing_changed(before);
}

TEST_CASE("every delivery eight times at once changes nothing")
{
    three_sagas t;
    t.place();
    t.end_all();
    t.take();
    auto const before = everything(t.s);
    for (auto const& one : t.deliveries) {
        for (int i = 0; i < 8; ++i) t.hands.send(one);
        REQUIRE(wait_until([&] { return t.hands.waiting_in("skald." + one.destination) == 0; }));
    }
    t.check_nothing_changed(before);
}

TEST_CASE("B7: every delivery in reverse order, last first, changes nothing")
{
    three_sagas t;
    t.place();
    t.end_all();
    t.take();
    auto const before = everything(t.s);
    for (auto one = t.deliveries.rbegin(); one != t.deliveries.rend(); ++one) t.hands.send(*one);
    t.check_nothing_changed(before);
}

TEST_CASE("deliveries that are copied while the sagas run, eight times each, take effect once")
{
    three_sagas t;
    t.hands.capture_everything();
    t.s.start_all();
    t.s.fill();
    // Slow steps, so that the copies meet the original in the middle of its transaction.
    t.s.payments_db.slow_down("charge", 300ms);
    for (int i = 0; i < 5; ++i) {
        REQUIRE(t.s.order("good-" + std::to_string(i)).status == 202);
        REQUIRE(t.s.order("rare-" + std::to_string(i), {.sku = "rare"}).status == 202);
    }
    REQUIRE(wait_until([&] {
        for (auto const& one : t.hands.take_captured())
            for (int i = 0; i < 8; ++i) t.hands.send(one);
        return t.s.sagas_not_ended() == 0;
    }));
    t.s.check_books(100001, 1000);
    CHECK(t.s.outboxes_empty());
    CHECK(t.s.parked_in_all() == 0);
    CHECK(t.s.all_acked());
    t.s.close_in_order();
}

TEST_CASE("another body under a delivery's key is parked once as a mismatch, and the saga is unharmed")
{
    three_sagas t;
    t.place();
    t.end_all();
    t.take();
    auto const before = everything(t.s);
    int changed = 0;
    for (auto one : t.deliveries) {
        if (one.type() == "skald.progress") continue;
        auto body = json::parse(one.body);
        body["cents"] = 1;
        one.body = body.dump();
        for (int i = 0; i < 3; ++i) t.hands.send(one);
        ++changed;
    }
    CHECK(wait_until([&] { return t.s.parked_in_all() == changed; }));
    CHECK(t.s.all_acked());
    t.s.close_in_order();
    CHECK(t.s.parked_in_all() == changed);
    for (auto* database : t.s.databases())
        for (auto const& row : database->ask("SELECT DISTINCT reason FROM skald.parked")) CHECK(row[0] == "mismatch");
    CHECK(everything(t.s) == before);
}

TEST_CASE("a compensation that comes before its step keeps the step from running for good")
{
    shop s;
    amqp_hands hands{broker()};
    hands.capture_everything();
    s.open();
    REQUIRE(s.order("first").status == 202);
    REQUIRE(s.ends("first", "completed"));
    raw_message charge;
    for (auto const& one : hands.take_captured())
        if (one.type() == "charge-payment") charge = one;
    REQUIRE(charge.destination == "payments");

    auto late = charge;
    late.set("x-idempotency-key", "ghost:charge-payment");
    late.set_id("ghost:charge-payment");
    auto undo = late;
    undo.set("x-idempotency-key", "ghost:charge-payment.compensate");
    undo.set_id("ghost:charge-payment.compensate");
    auto itinerary = late.header("x-saga-itinerary");
    undo.set("x-saga-itinerary", "back" + itinerary.substr(itinerary.find(' ')));
    hands.send(undo);
    REQUIRE(wait_until([&] { return s.payments_db.count("skald.idempotency WHERE key = 'ghost'") == 2; }));
    hands.send(late);
    REQUIRE(wait_until([&] { return s.waiting_deliveries() == 0; }));
    REQUIRE(s.order("last").status == 202);
    REQUIRE(s.ends("last", "completed"));
    s.close_in_order();
    CHECK(s.payments_db.count("charge") == 2);
    CHECK(s.payments_db.count("charge WHERE kind = 'refund'") == 0);
    CHECK(s.payments_db.ask("SELECT step, status FROM skald.idempotency WHERE key = 'ghost' ORDER BY 1") ==
          table{{"charge-payment", "cancelled"}, {"charge-payment.compensate", "cancelled"}});
}
