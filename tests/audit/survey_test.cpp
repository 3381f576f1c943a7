// Skald's invariants over real databases: each planted fault is named, and nothing else is.
#include "audit/survey.hpp"
#include "rig/order_plan.hpp"
#include "support/stepped_shop.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace skald;
using namespace std::chrono_literals;

namespace {

class audited_shop : public test::stepped_shop
{
public:
    audit::survey_options options()
    {
        audit::survey_options made;
        for (auto const* name : {"orders", "payments", "shipping"}) made.databases.push_back({name, at(name).db.url()});
        made.grace = 0s;  // what is there counts as old
        return made;
    }

    /// "kind service key what" for each, in order.
    static std::string found_with(audit::survey_options const& options)
    {
        audit::findings found{100};
        audit::survey(options, found);
        std::vector<std::string> lines;
        for (auto const& one : found.kept())
            lines.push_back(one.kind + ' ' + one.service + ' ' + one.key + ' ' + one.what);
        std::ranges::sort(lines);
        std::string text;
        for (auto const& line : lines) text += (text.empty() ? "" : "\n") + line;
        return text;
    }
    std::string found() { return found_with(options()); }

    /// One saga that completed as "1", one that was compensated as "2".
    void run_two()
    {
        order("1");
        order("2", 1000);
        run();
        REQUIRE(saga_status("1") == "completed");
        REQUIRE(saga_status("2") == "compensated");
        REQUIRE(found().empty());
    }

    void change(std::string const& name, std::string const& sql) { at(name).db.run(sql); }
};

}  // namespace

TEST_CASE("after the orders of the demo's plan every invariant holds")
{
    audited_shop s;
    auto const plan = rig::make_plan(60, 5);
    for (auto const& [customer, cents] : plan.wallets)
        s.change("payments", "INSERT INTO wallet VALUES ('" + customer + "', " + std::to_string(cents) + ")");
    for (auto const& [sku, free] : plan.stock)
        s.change("shipping", "INSERT INTO stock VALUES ('" + sku + "', " + std::to_string(free) + ")");
    for (auto const& one : plan.orders)
        s.start(order_saga::place_order, order_saga::order{one.key, one.customer, one.sku, one.quantity, one.cents},
                one.key);
    s.run();
    REQUIRE(s.at("orders").db.one("SELECT count(*) FROM skald.saga WHERE status = 'completed'") != "0");
    REQUIRE(s.at("orders").db.one("SELECT count(*) FROM skald.saga WHERE status = 'compensated'") != "0");
    CHECK(s.found().empty());

    audit::findings none{10};
    auto const counted = audit::survey(s.options(), none);
    CHECK(counted.sagas == 60);
    CHECK(counted.keys == 60);
    CHECK(counted.records > 60 * 3);
}

TEST_CASE("at no moment of a saga, and of one that compensates, is anything wrong")
{
    audited_shop s;
    s.order("1");
    s.order("2", 1000);
    auto options = s.options();
    options.grace = 5min;
    for (bool did_something = true; did_something;) {
        did_something = false;
        for (auto const* name : {"orders", "payments", "shipping"}) {
            did_something = s.at(name).relay_due() > 0 || did_something;
            CHECK(audited_shop::found_with(options).empty());
            did_something = s.at(name).process_one() || did_something;
            CHECK(audited_shop::found_with(options).empty());
        }
    }
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.saga_status("2") == "compensated");
}

TEST_CASE("a completed saga without the record of a step is found, and so is one whose step was undone")
{
    audited_shop s;
    s.run_two();
    s.change("payments", "DELETE FROM skald.idempotency WHERE key = '1'");
    CHECK(s.found() == "not_done orders 1 charge-payment");
    s.change("payments",
             "INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', '1', 'charge-payment', 'orders'),"
             " ('', '1', 'charge-payment.compensate', 'orders')");
    CHECK(s.found() == "undone orders 1 charge-payment");
}

TEST_CASE("a compensated saga whose step was not undone is found, whichever record says so")
{
    audited_shop s;
    s.run_two();
    s.change("payments", "DELETE FROM skald.idempotency WHERE key = '2' AND step = 'charge-payment.compensate'");
    CHECK(s.found() == "not_undone orders 2 charge-payment");

    s.order_up_to("arrange-shipping", "3");
    s.change("shipping", "UPDATE stock SET free = 0");
    s.change("payments", "DELETE FROM skald.idempotency WHERE key = '3'");
    s.run();
    REQUIRE(s.saga_status("3") == "compensated");
    CHECK(s.found() == "not_undone orders 2 charge-payment\nnot_undone orders 3 charge-payment");
}

TEST_CASE("effects of a saga that its home does not know are found")
{
    audited_shop s;
    s.run_two();
    s.change("orders", "DELETE FROM skald.saga WHERE key = '1'");
    CHECK(s.found() ==
          "effect_without_saga orders 1 confirm-order\neffect_without_saga orders 1 create-order\n"
          "effect_without_saga payments 1 charge-payment\neffect_without_saga shipping 1 arrange-shipping");
}

TEST_CASE("a saga whose message is lost is found, and not while it is young, paused, or told by a queue")
{
    audited_shop s;
    s.order_up_to("charge-payment");
    CHECK(s.found() == "nothing_moves_it orders 1 ");
    auto options = s.options();
    options.grace = 5min;
    CHECK(audited_shop::found_with(options).empty());
    options = s.options();
    options.queues = [] { return audit::queues_seen{{{"orders", 0}, {"payments", 1}, {"shipping", 0}}}; };
    CHECK(audited_shop::found_with(options).empty());
    for (auto const* table : {"saga", "idempotency"})
        s.change("orders", std::string{"UPDATE skald."} + table +
                               " SET created_at = created_at - interval '25 h', updated_at = updated_at - interval "
                               "'25 h'");
    CHECK(audited_shop::found_with(options) == "nothing_moves_it orders 1 ");
    s.change("orders", "SELECT skald.request_control('pause', '', '1')");
    CHECK(s.found().empty());
}

TEST_CASE("a saga whose report waits in another service's outbox is moved on by it")
{
    audited_shop s;
    s.order_up_to("charge-payment");
    s.at("payments").process_one();
    s.change("payments", "DELETE FROM skald.outbox WHERE type <> 'skald.progress'");
    CHECK(s.found().empty());
    s.change("payments", "DELETE FROM skald.outbox");
    CHECK(s.found() == "nothing_moves_it orders 1 ");
}

TEST_CASE("a saga that is stuck on a parked delivery is explained, and one whose delivery is gone is not")
{
    audited_shop s;
    auto given_up = test::delivery_of(s.order_up_to("charge-payment"));
    given_up.given_up = true;
    s.at("payments").process(given_up);
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    CHECK(s.found().empty());
    s.change("payments", "DELETE FROM skald.parked");
    CHECK(s.found() == "nothing_moves_it orders 1 ");
}

TEST_CASE("a record that waits for nothing is found")
{
    audited_shop s;
    s.run_two();
    for (std::string const status : {"retrying", "started"}) {
        CAPTURE(status);
        s.change("payments",
                 "UPDATE skald.idempotency SET status = '" + status + "' WHERE key = '2' AND step = 'charge-payment'");
        CHECK(s.found() == "waits_for_nothing payments 2 charge-payment");
    }
}

TEST_CASE("a message in the outbox and a parked delivery that no saga explains are found")
{
    audited_shop s;
    s.run_two();
    auto const enqueue = [&](std::string const& key) {
        s.change("orders", "SELECT skald.enqueue('payments', 'charge-payment', '" + key +
                               ":charge-payment', '',"
                               " '{\"x-saga-home\": \"orders\", \"x-saga-itinerary\": \"\"}', aggregateid => '" +
                               key + "')");
    };
    enqueue("1");
    enqueue("nobody");
    CHECK(s.found() == "message_for_nothing orders 1 1:charge-payment\n"
                       "message_for_nothing orders nobody nobody:charge-payment");
    s.change("orders", "DELETE FROM skald.outbox");
    s.change("payments",
             "INSERT INTO skald.parked (key, step, reason, body, fingerprint) VALUES"
             " ('1', 'charge-payment', 'mismatch', '', sha256('1')), ('', '', 'malformed', '', sha256('2'))");
    CHECK(s.found() == "parked_for_nothing payments  \nparked_for_nothing payments 1 charge-payment");
}

TEST_CASE("of what message handlers have done, and of their parked messages, no saga has to know")
{
    audited_shop s;
    s.run_two();
    s.change("payments",
             "INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', 'm-1', 'note-price', '-')");
    CHECK(s.found().empty());
    s.change("payments", "INSERT INTO skald.parked (key, step, reason, body, fingerprint, handler) VALUES"
                         " ('m-2', 'note-price', 'attempts_exhausted', '', sha256('1'), 'note-price')");
    CHECK(s.found().empty());
}

TEST_CASE("a service whose database was not given is named once")
{
    audited_shop s;
    s.run_two();
    auto options = s.options();
    options.databases.pop_back();
    options.file = "FILE";
    CHECK(audited_shop::found_with(options) == "not_examined shipping  ");
}

TEST_CASE("with the home's database alone nothing is said about what others may have, and they are named")
{
    audited_shop s;
    s.run_two();
    auto options = s.options();
    options.databases.resize(1);
    options.file = "FILE";
    auto const only_named = "not_examined payments  \nnot_examined shipping  ";
    CHECK(audited_shop::found_with(options) == only_named);
    // One whose message the home can't see may be moved on by anything; what the home itself has is examined.
    s.order("3");
    s.change("orders", "DELETE FROM skald.outbox");
    CHECK(audited_shop::found_with(options) == only_named);
    s.change("orders", "DELETE FROM skald.idempotency WHERE key = '1' AND step = 'create-order'");
    CHECK(audited_shop::found_with(options) == std::string{"not_done orders 1 create-order\n"} + only_named);
}

TEST_CASE("a finding that a second look does not find again, or finds changed, is not reported")
{
    audited_shop s;
    s.run_two();
    auto options = s.options();
    auto const wait_with = [&](std::string const& sql) {
        options.wait = [&s, sql] { s.change("orders", sql); };
        return audited_shop::found_with(options);
    };
    s.change("orders", "UPDATE skald.saga SET status = 'running', finished_at = NULL WHERE key = '1'");
    CHECK(wait_with("UPDATE skald.saga SET updated_at = clock_timestamp() WHERE key = '1'").empty());
    CHECK(wait_with("SELECT 1") == "nothing_moves_it orders 1 ");
    CHECK(wait_with("UPDATE skald.saga SET status = 'completed', finished_at = clock_timestamp() WHERE key = '1'")
              .empty());
}

TEST_CASE("what was purged is not missing, at any moment of a purge")
{
    audited_shop s;
    s.run_two();
    std::vector<std::string> const names{"orders", "payments", "shipping"};
    for (auto const& name : names)
        s.change(name, "UPDATE skald.idempotency SET created_at = created_at - interval '31 days', updated_at = "
                       "updated_at - interval '31 days'");
    s.change("orders", "UPDATE skald.saga SET created_at = created_at - interval '31 days', finished_at = finished_at "
                       "- interval '31 days'");
    for (int round = 0; round < 3; ++round)
        for (auto const& name : names) {
            s.change(name, "SELECT skald.purge(interval '30 days', 500)");
            CHECK(s.found().empty());
            s.run();
            CHECK(s.found().empty());
        }
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.saga") == "0");
}

TEST_CASE("among thousands of sagas the only one that is wrong is found")
{
    audited_shop s;
    auto const keys = " FROM generate_series(1, 5000) AS n";
    s.change("orders",
             std::string{"INSERT INTO skald.saga (scope, key, definition, data, status, finished_at, itinerary)"
                         " SELECT 'tenant', 'k' || n, 'pay', '{}', 'completed', clock_timestamp(), 'forward 1/1 "
                         "charge-payment@payments=pivot'"} +
                 keys);
    s.change("payments", std::string{"INSERT INTO skald.idempotency (scope, key, step, home)"
                                     " SELECT 'tenant', 'k' || n, 'charge-payment', 'orders'"} +
                             keys + " WHERE n <> 4321");
    audit::findings found{10};
    auto const counted = audit::survey(s.options(), found);
    CHECK(counted.sagas == 5000);
    CHECK(counted.records == 4999);
    REQUIRE(found.total() == 1);
    CHECK(found.kept()[0].command == "skald saga show k4321 --scope tenant");
}

TEST_CASE("a database that is not the service's is refused")
{
    audited_shop s;
    auto options = s.options();
    std::swap(options.databases[0].url, options.databases[1].url);
    audit::findings found{10};
    CHECK_THROWS_AS(audit::survey(options, found), configuration_error);
}
