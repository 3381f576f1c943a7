// An operator's orders where they meet a step at the same moment, are repeated or malformed, or where a delivery was
// given up.
#include "support/orders.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <latch>
#include <thread>

using namespace skald::test;

namespace {

class ordered_shop : public stepped_shop
{
public:
    std::string give(std::string const& action, std::string const& reason = "", std::string const& key = "1")
    {
        return give_order(at("orders").db.url(), action, reason, key);
    }
    std::string explanation() { return explanation_of(at("orders").db.url()); }
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
        auto const pivot = s.order_up_to("arrange-shipping", key);
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
    s.order_up_to("create-order");
    CHECK(s.give("pause").empty());
    s.run();
    auto order = s.last_sent("skald.control");
    order.destination = "payments";
    for (int i = 0; i < 3; ++i) s.transport().inject(order);
    order.body = R"({"action":"stop"})";
    s.transport().inject(order);
    s.run();
    for (auto const* service : {"payments", "shipping"})
        CHECK(s.at(service).db.rows("SELECT verb, detail->>'effect' FROM skald.audit") == "saga pause|taken");
    CHECK(s.parked() == "payments|malformed|1");
}

TEST_CASE("a cancel frees a saga that is stuck before the pivot")
{
    ordered_shop s;
    auto given_up = delivery_of(s.order_up_to("charge-payment"));
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

TEST_CASE("a cancel stands where a step that committed by itself has to be looked at first")
{
    ordered_shop s;
    auto given_up = delivery_of(s.order_up_to("create-order"));
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
    CHECK(s.at("shipping").db.rows("SELECT verb, detail->>'effect' FROM skald.audit") == "saga cancel|taken");
    CHECK(home.one("SELECT skald.replay_parked(id, 'eve', true) FROM skald.parked").empty());
    s.run();
    CHECK(s.saga_status("1") == "compensated");
    CHECK(home.one("SELECT reason FROM skald.saga") == "enough");
}
