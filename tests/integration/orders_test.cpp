// An operator's orders over real databases, stepped by hand: cancel, pause, resume and retry of
// one saga across services.
#include "admin/commands.hpp"
#include "admin/saga_view.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <latch>
#include <thread>

using skald::test::stepped_shop;

namespace {

constexpr auto completed = "o-1|confirmed / 900 o-1|charge|1 / 4 o-1|1";
constexpr auto refunded = "o-1|cancelled / 1000 o-1|charge|1\no-1|refund|1 / 5 ";
constexpr std::array services{"orders", "payments", "shipping"};

class ordered_shop : public stepped_shop
{
public:
    /// The refusal, or nothing.
    std::string give(std::string const& action, std::string const& reason = "", std::string const& key = "1")
    {
        skald::postgres::connection c{{.url = at("orders").db.url()}};
        auto const done = skald::admin::issue(c, {action, {"", key}, reason, "eve"});
        return done.contains("refused") ? done["refused"].get<std::string>() : "";
    }

    std::string explanation(std::string const& key = "1")
    {
        skald::postgres::connection c{{.url = at("orders").db.url()}};
        return skald::admin::explain(skald::admin::find_saga(c, {"", key}).value());
    }

    /// Runs the saga until `service` has the delivery of its next step, not settled yet, and returns that.
    void send_to(std::string const& service)
    {
        for (std::string const from : services) {
            if (from == service) return;
            at(from).settle_one();
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
        at(service).settle(delivery_of(*order));
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

TEST_CASE("a cancel before the pivot undoes what has run, in three services, and the saga says why")
{
    ordered_shop s;
    s.begin();
    s.send_to("shipping");
    CHECK(s.give("cancel", "the customer called").empty());
    s.deliver_order_to("shipping");
    s.run();
    CHECK(s.effects() == refunded);
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga") == "the customer called");
    for (auto const* service : services) CHECK(s.audit(service) == "saga cancel|taken");
    CHECK(s.at("shipping").db.one("SELECT actor FROM skald.audit").starts_with("eve as "));
    CHECK(s.parked().empty());
    CHECK(s.explanation().find("compensated at ") == 0);
}

TEST_CASE("a cancel meets the saga at whatever step it waits, and only what ran is undone")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("cancel").empty());
    s.run();
    CHECK(s.effects() == " / 1000  / 5 ");
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga").starts_with("cancelled by eve as "));
}

TEST_CASE("a cancel behind the pivot is refused with the reason, and nothing is written")
{
    ordered_shop s;
    s.begin();
    s.send_to("shipping");
    s.at("shipping").settle_one();
    s.at("shipping").relay_due();
    // Of the two messages to the home, the report is the later one: confirm-order runs first.
    s.at("orders").db.run(
        "SELECT skald.record_progress(jsonb_build_array(jsonb_build_object('scope', '', 'key', '1', 'step', "
        "'arrange-shipping', 'service', 'shipping', 'status', 'completed', 'attempts', 1, 'at', now())))");
    CHECK(s.give("cancel").find("past the pivot: arrange-shipping completed at ") != std::string::npos);
    CHECK(s.audit("orders").empty());
    CHECK(s.at("orders").db.rows("SELECT * FROM skald.control").empty());
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.give("cancel").find("has ended: it is completed") != std::string::npos);
}

TEST_CASE("a cancel that lost the race with the pivot changes nothing, and the saga says that it came too late")
{
    ordered_shop s;
    s.begin();
    s.send_to("shipping");
    CHECK(s.give("cancel", "too slow").empty());
    s.at("shipping").settle_one();  // the pivot, before the order arrives
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.explanation().find("too late: arrange-shipping, the pivot, had completed") != std::string::npos);
}

TEST_CASE("a cancel and a running pivot: the saga completes or compensates, never both")
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
        auto const settle = [&](skald::core::message const& m) {
            both.arrive_and_wait();
            s.at("shipping").settle_apart(skald::test::simulation::delivery_of(m));
        };
        std::jthread{[&] { settle(i % 2 == 0 ? pivot : order); }}, settle(i % 2 == 0 ? order : pivot);
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

TEST_CASE("a pause stops a saga between steps in whatever service, and a resume lets it go on at once")
{
    for (std::string const service : services) {
        CAPTURE(service);
        ordered_shop s;
        s.begin();
        s.send_to(service);
        CHECK(s.give("pause", "looking").empty());
        if (service != "orders") s.deliver_order_to(service);
        s.run();
        auto const before = s.effects();
        CHECK(s.saga_status("1") == "running");
        CHECK(s.explanation().find("It is paused by eve as ") != std::string::npos);
        s.at(service).make_due();
        s.run();
        CHECK(s.effects() == before);
        // Without a word to the clock: what waits is woken.
        CHECK(s.give("resume").empty());
        s.run();
        CHECK(s.effects() == completed);
        CHECK(s.saga_status("1") == "completed");
    }
}

TEST_CASE("a pause that arrives after the resume that followed it is ignored")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("pause").empty());
    CHECK(s.give("resume").empty());
    auto const& payments = s.at("payments").db;
    auto const sent =
        s.at("orders").db.run("SELECT convert_from(payload, 'UTF8') FROM skald.outbox "
                              "WHERE destination = 'payments' AND type = 'skald.control' ORDER BY id DESC");
    REQUIRE(sent.size() == 2);
    for (auto const* effect : {"taken", "outdated"}) {
        auto const& row = sent[effect == std::string{"taken"} ? 0 : 1];
        CHECK(payments.one("SELECT skald.take_control($o$" + std::string{row[0].c_str()} + "$o$)") == effect);
    }
    CHECK(payments.one("SELECT action FROM skald.control") == "resume");
    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("of two orders at the same instant of a clock that was put back, the later one counts")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("pause").empty());
    s.at("orders").db.run("UPDATE skald.control SET requested_at = clock_timestamp() + interval '1 hour'");
    CHECK(s.give("resume").empty());
    CHECK(s.at("orders").db.one("SELECT action FROM skald.control") == "resume");
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

TEST_CASE("a cancel takes the place of a pause, and can't be undone by one")
{
    ordered_shop s;
    s.begin();
    s.send_to("payments");
    CHECK(s.give("pause").empty());
    s.deliver_order_to("payments");
    CHECK(s.give("cancel", "enough").empty());
    CHECK(s.give("pause").find("was cancelled at ") != std::string::npos);
    CHECK(s.give("resume").find("was cancelled at ") != std::string::npos);
    s.run();
    CHECK(s.effects() == "o-1|cancelled / 1000  / 5 ");
    CHECK(s.saga_status("1") == "compensated");
}

TEST_CASE("orders that can't be given say why")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("cancel", "", "no-such").find("no saga no-such was started here") != std::string::npos);
    CHECK(s.give("resume").find("is not paused: it is running") != std::string::npos);
    CHECK(s.give("retry").find("no step of saga 1 is parked: it is running") != std::string::npos);
    s.order("2", 6);
    s.run();
    CHECK(s.give("pause", "", "2").find("has ended: it is compensated") != std::string::npos);
    CHECK(s.audit("orders").empty());
}

TEST_CASE("a saga that is compensating already is not cancelled a second time")
{
    ordered_shop s;
    s.break_table("payments", "charge");
    s.order("1", 6);
    s.at("orders").relay_due();
    s.at("orders").settle_one();
    s.mend_table("payments", "charge");
    s.at("orders").relay_due();
    s.at("payments").settle_one();
    s.at("payments").relay_due();
    s.break_table("payments", "charge");
    s.run();
    CHECK(s.saga_status("1") == "stuck");
    CHECK(s.give("cancel").find("is compensating already: out of stock") != std::string::npos);
}

TEST_CASE("a cancel frees a saga that is stuck before the pivot")
{
    ordered_shop s;
    s.begin();
    s.send_to("payments");
    auto given_up = skald::test::simulation::delivery_of(s.last_sent("charge-payment"));
    given_up.given_up = true;
    s.at("payments").settle(given_up);
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    CHECK(s.explanation().find("or give it up with `skald saga cancel 1`") != std::string::npos);
    CHECK(s.give("cancel", "not worth it").empty());
    s.run();
    CHECK(s.effects() == "o-1|cancelled / 1000  / 5 ");
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
    s.at("orders").settle_one();
    CHECK(s.saga_status("1") == "compensating");
    s.run();
    CHECK(s.effects() == refunded);
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.at("orders").db.one("SELECT reason FROM skald.saga") == "out of stock");
    CHECK(s.give("retry").find("has ended") != std::string::npos);
}

TEST_CASE("a retry at the home goes on where the saga was stuck")
{
    ordered_shop s;
    s.begin();
    s.send_to("shipping");
    s.break_table("orders", "customer_order");
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    CHECK(s.explanation().find("stuck: confirm-order was parked at orders") == 0);
    CHECK(s.give("cancel").find("past the pivot") != std::string::npos);
    s.mend_table("orders", "customer_order");
    CHECK(s.give("retry").empty());
    CHECK(s.saga_status("1") == "running");
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.audit("orders") == "saga retry|taken");
}

TEST_CASE("a cancel stands where a step that committed by itself has to be looked at first")
{
    ordered_shop s;
    s.begin();
    auto given_up = skald::test::simulation::delivery_of(s.last_sent("create-order"));
    given_up.given_up = true;
    s.at("orders").settle(given_up);
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
