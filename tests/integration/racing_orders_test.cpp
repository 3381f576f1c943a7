// An operator's orders where they meet a step at the same moment, are repeated or malformed, or where a delivery was
// given up.
#include "support/orders.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <latch>
#include <thread>

using namespace skald::test;

namespace {

constexpr std::array services{"orders", "payments", "shipping"};

class ordered_shop : public stepped_shop
{
public:
    std::string give(std::string const& action, std::string const& reason = "", std::string const& key = "1")
    {
        return give_order(at("orders").db.url(), action, reason, key);
    }
    std::string explanation() { return explanation_of(at("orders").db.url()); }

    /// Runs the saga until `service` has the delivery of its next step, not processed yet, and returns that.
    void send_to(std::string const& service)
    {
        for (std::string const from : services) {
            if (from == service) return;
            at(from).process_one();
            at(from).relay_due();
        }
    }

    /// The latest order overtakes what waits in the service's queue; its copy there comes again behind it.
    void deliver_order_to(std::string const& service)
    {
        at("orders").relay_due();
        auto const sent = transport().captured();
        auto const order = std::find_if(sent.rbegin(), sent.rend(), [&](auto const& m) {
            return m.type == "skald.control" && m.destination == service;
        });
        REQUIRE(order != sent.rend());
        at(service).process(delivery_of(*order));
    }

    std::string audit(std::string const& service)
    {
        return at(service).db.rows("SELECT verb, detail->>'effect' FROM skald.audit ORDER BY id");
    }

    /// An order saga "1" whose first message has left its home.
    void begin(std::string const& key = "1")
    {
        order(key);
        at("orders").relay_due();
    }

    /// Makes a step that writes to `table` break, or work again.
    void break_table(std::string const& service, std::string const& table)
    {
        at(service).db.run("ALTER TABLE " + table + " RENAME TO broken_" + table);
    }
    void mend_table(std::string const& service, std::string const& table)
    {
        at(service).db.run("ALTER TABLE broken_" + table + " RENAME TO " + table);
    }
};

}  // namespace

TEST_CASE("a cancel and a running pivot: the saga completes or goes back, never both")
{
    ordered_shop s;
    s.at("payments").db.run("UPDATE wallet SET cents = 100000");
    s.at("shipping").db.run("UPDATE stock SET free = 1000");
    int won = 0;
    for (int i = 0; i < 24; ++i) {
        auto const key = std::to_string(i);
        s.order(key);
        s.at("orders").relay_due();
        s.send_to("shipping");
        auto const pivot = s.last_sent("arrange-shipping");
        CHECK(s.give("cancel", "", key).empty());
        s.at("orders").relay_due();
        auto const order = s.last_sent("skald.control");
        std::latch both{2};
        auto const process = [&](skald::core::message const& m) {
            both.arrive_and_wait();
            s.at("shipping").process_apart(delivery_of(m));
        };
        std::jthread{[&] { process(i % 2 == 0 ? pivot : order); }}, process(i % 2 == 0 ? order : pivot);
        s.run();
        auto const shipped = s.at("shipping").db.one("SELECT count(*) FROM shipment WHERE order_id = 'o-" + key + "'");
        auto const refunds =
            s.at("payments").db.one("SELECT count(*) FROM charge WHERE kind = 'refund' AND order_id = 'o-" + key + "'");
        CHECK(shipped + refunds == (shipped == "1" ? "10" : "01"));
        CHECK(s.saga_status(key) == (shipped == "1" ? "completed" : "compensated"));
        won += shipped == "1";
    }
    MESSAGE("the pivot won ", won, " of 24");
    CHECK(s.parked().empty());
}

TEST_CASE("an order that comes twice is taken once, and one that is malformed is parked")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("pause").empty());
    s.deliver_order_to("payments");
    auto order = s.last_sent("skald.control");
    order.destination = "payments";
    for (int i = 0; i < 3; ++i) s.transport().inject(order);
    order.body = R"({"action":"stop"})";
    s.transport().inject(order);
    s.run();
    CHECK(s.audit("payments") == "saga pause|taken");
    CHECK(s.audit("shipping") == "saga pause|taken");
    CHECK(s.parked() == "payments|malformed|1");
}

TEST_CASE("a cancel frees a saga that is stuck before the pivot")
{
    ordered_shop s;
    s.begin();
    s.send_to("payments");
    auto given_up = delivery_of(s.last_sent("charge-payment"));
    given_up.given_up = true;
    s.at("payments").process(given_up);
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    CHECK(s.explanation().find("or give it up with `skald saga cancel 1`") != std::string::npos);
    CHECK(s.give("cancel", "not worth it").empty());
    s.run();
    CHECK(s.effects() == not_charged);
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga") == "not worth it");
    CHECK(s.parked().empty());
}

TEST_CASE("a retry puts the compensation that is parked elsewhere back, with attempts counted from scratch")
{
    ordered_shop s;
    s.order("1", 6);
    s.at("orders").relay_due();
    s.send_to("shipping");
    s.break_table("payments", "charge");
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    CHECK(s.parked() == "payments|attempts_exhausted|1");
    CHECK(s.explanation().find("stuck: charge-payment.compensate was parked at payments after 3 attempts, ") == 0);
    CHECK(s.explanation().find("`skald saga retry 1`") != std::string::npos);

    CHECK(s.give("retry").empty());
    s.deliver_order_to("payments");
    CHECK(s.parked().empty());
    auto const order = s.last_sent("skald.control");
    s.run();
    CHECK_MESSAGE(s.at("payments")
                          .db.rows("SELECT status, attempts, snoozes FROM skald.idempotency WHERE step = "
                                   "'charge-payment.compensate'") == "parked|3|3",
                  "three attempts more, and parked again");
    s.transport().inject(order);
    s.run();
    CHECK_MESSAGE(s.saga_status("1") == "stuck", "the same order again is not another retry");

    s.mend_table("payments", "charge");
    CHECK(s.give("retry").empty());
    s.deliver_order_to("payments");
    s.at("payments").relay_due();
    s.at("orders").process_one();
    CHECK(s.saga_status("1") == "compensating");
    s.run();
    CHECK(s.effects() == refunded);
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga") == "out of stock");
    CHECK(s.give("retry").find("has ended") != std::string::npos);
}

TEST_CASE("a cancel stands where a step that committed by itself has to be looked at first")
{
    ordered_shop s;
    s.begin();
    auto given_up = delivery_of(s.last_sent("create-order"));
    given_up.given_up = true;
    s.at("orders").process(given_up);
    auto const& home = s.at("orders").db;
    home.run("UPDATE skald.parked SET reason = 'transaction_ended'");
    CHECK(s.give("retry").find("committed by itself") != std::string::npos);
    CHECK(s.saga_status("1") == "stuck");
    CHECK(s.give("cancel", "enough").empty());
    s.run();
    CHECK(s.saga_status("1") == "stuck");
    CHECK(s.explanation().find("A cancel was requested by eve") != std::string::npos);
    CHECK(s.audit("shipping") == "saga cancel|taken");
    CHECK(home.one("SELECT skald.replay_parked(id, 'eve', true) FROM skald.parked").empty());
    s.run();
    CHECK(s.saga_status("1") == "compensated");
    CHECK(home.one("SELECT reason FROM skald.saga") == "enough");
}
