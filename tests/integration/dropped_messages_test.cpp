// Messages that can never be sent are dropped from the outbox by an operator: what becomes of their sagas.
#include "admin/commands.hpp"
#include "admin/order_for_many.hpp"
#include "admin/saga_view.hpp"
#include "support/orders.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using nlohmann::json;
using skald::test::completed;
using skald::test::stepped_shop;

namespace {

class dropping_shop : public stepped_shop
{
public:
    json drop(std::string const& where, std::string const& arguments)
    {
        return json::parse(at(where).db.one("SELECT skald.drop_messages(" + arguments + ")"));
    }

    /// The messages of that type at a service have been refused by the broker.
    void refuse(std::string const& where, std::string const& type)
    {
        at(where).db.run("UPDATE skald.outbox SET error = '312 NO_ROUTE', attempts = 9 WHERE type = '" + type + "'");
    }

    std::string explanation() { return skald::test::explanation_of(at("orders").db.url()); }

    std::string give(std::string const& action) { return skald::test::give_order(at("orders").db.url(), action); }

    static bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }
};

}  // namespace

TEST_CASE("a saga whose message was dropped is stuck, says so, can't be retried, and can be closed")
{
    dropping_shop s;
    std::string where = "orders", step = "charge-payment", to = "payments";
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").process_one();
    SUBCASE("at its home") {}
    SUBCASE("in another service, of whose drop the home hears")
    {
        where = "payments";
        step = "arrange-shipping";
        to = "shipping";
        s.at("orders").relay_due();
        s.at("payments").process_one();
    }
    s.refuse(where, step);
    auto const refused = s.drop(where, "'" + to + "', NULL, 'no such service', 'eve'");
    CHECK(refused["dropped"].empty());
    CHECK_MESSAGE(s.has(refused["refused"].dump(), "saga 1 needs it"), refused.dump());

    auto const dropped = s.drop(where, "'" + to + "', '1:" + step + "', 'no such service', 'eve', true");
    CHECK(dropped["dropped"].at(0)["key"] == "1");
    CHECK(s.at(where).db.rows("SELECT verb, key, detail->>'message_id', detail->>'why', detail->>'error' "
                              "FROM skald.audit") == "outbox drop|1|1:" + step + "|no such service|312 NO_ROUTE");
    s.run();
    CHECK(s.saga_status("1") == "stuck");
    CHECK_MESSAGE(s.has(s.explanation(), "stuck: " + step + " can't run at " + to +
                                             ": its message was dropped from the outbox of " + where + " by eve as "),
                  s.explanation());
    CHECK_MESSAGE(s.has(s.explanation(), "Nothing is left to retry"), s.explanation());
    CHECK_MESSAGE(s.has(s.give("retry"), "nothing of " + step + " is left to retry"), s.give("retry"));

    skald::postgres::connection c{{.url = s.at("orders").db.url()}};
    CHECK(s.give("pause").empty());
    auto const cancelled = skald::admin::issue(c, {"cancel", {"", "1"}, "", "eve"});
    CHECK_MESSAGE(s.has(cancelled.value("left", ""), "nothing of " + step + " is left to retry"), cancelled.dump());
    CHECK_FALSE(skald::admin::close(c, "compensated", {"", {"", "1"}, "by hand", "eve"}).contains("refused"));
    s.run();
    CHECK(s.saga_status("1") == "compensated");
}

TEST_CASE("where the dropped message had arrived after all, what its service reports counts")
{
    dropping_shop s;
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").process_one();
    // The broker has it, and its confirm was lost.
    auto const copy = s.at("orders").db.one("SELECT to_jsonb(o) FROM skald.outbox o WHERE type = 'charge-payment'");
    s.at("orders").relay_due();
    s.at("orders").db.run("INSERT INTO skald.outbox OVERRIDING SYSTEM VALUE SELECT * FROM "
                          "jsonb_populate_record(NULL::skald.outbox, '" +
                          copy + "')");
    bool is_first{};
    SUBCASE("before")
    {
        is_first = true;
    }
    SUBCASE("afterwards") {}
    auto const process_charge = [&] {
        s.at("payments").process_one();
        s.at("payments").relay_due();
        while (s.at("orders").process_one()) continue;
    };
    if (is_first) process_charge();
    s.drop("orders", "'payments', NULL, 'thought lost', 'eve', true");
    if (!is_first) {
        CHECK(s.saga_status("1") == "stuck");
        process_charge();
    }
    CHECK(s.saga_status("1") == "running");
    s.run();
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.effects() == completed);
}

TEST_CASE("the retry of a step of this service that is dropped parks its record; a decided step is left as it is")
{
    dropping_shop s;
    s.order_up_to("charge-payment");
    auto& payments = s.at("payments");
    payments.db.run("ALTER TABLE charge ADD CONSTRAINT never CHECK (false) NOT VALID");
    payments.process_one();
    payments.db.run("ALTER TABLE charge DROP CONSTRAINT never");
    std::string const record = "SELECT status FROM skald.idempotency WHERE step = 'charge-payment'";
    REQUIRE(payments.db.one(record) == "retrying");
    SUBCASE("to be tried again")
    {
        s.drop("payments", "'payments', NULL, 'a test', 'eve', true");
        CHECK(payments.db.one(record) == "parked");
        s.run();
        CHECK(s.saga_status("1") == "stuck");
        CHECK_MESSAGE(s.has(s.explanation(), "its message was dropped from the outbox of payments"), s.explanation());
    }
    SUBCASE("decided")
    {
        payments.db.run("UPDATE skald.idempotency SET status = 'completed' WHERE step = 'charge-payment'");
        s.drop("payments", "'payments', NULL, 'a test', 'eve', true");
        CHECK(payments.db.one(record) == "completed");
        s.run();
        CHECK(s.saga_status("1") == "running");
    }
}

TEST_CASE("an event is dropped without more ado once the broker has refused it, and nothing else is touched")
{
    dropping_shop s;
    s.at("orders").db.run("SELECT skald.enqueue('mail', 'x', 'a', ''), skald.enqueue('mail', 'x', 'b', ''), "
                          "skald.enqueue('bill', 'x', 'a', '')");
    CHECK(s.has(s.drop("orders", "'mail', NULL, 'gone'")["refused"].dump(), "the broker has not refused it"));
    s.refuse("orders", "x");
    CHECK(s.drop("orders", "'mail', 'a', 'gone'")["dropped"].size() == 1);
    CHECK(s.at("orders").db.rows("SELECT destination, idempotency_key FROM skald.outbox ORDER BY 1") ==
          "bill|a\nmail|b");
    auto const none = s.drop("orders", "'mail', 'a', 'gone'");
    CHECK(none["dropped"].empty());
    CHECK(none["refused"].empty());
    CHECK_THROWS(s.drop("orders", "'mail', 'a', ''"));
    CHECK_THROWS(s.drop("orders", "NULL, NULL, 'gone'"));
}

TEST_CASE("a message id that waits in several scopes is dropped of the one that is said, and of none where none is")
{
    dropping_shop s;
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('mail', 'x', 'a', '', scope => 'ann'), skald.enqueue('mail', 'x', 'a', '')");
    auto const all = s.drop("orders", "NULL, 'a', 'gone', NULL, true");
    CHECK(all["dropped"].empty());
    CHECK_MESSAGE(all["refused"].at(0)["scopes"] == json::parse(R"(["", "ann"])"), all.dump());
    auto const one = s.drop("orders", "NULL, 'a', 'gone', NULL, true, of_scope => ''");
    CHECK_MESSAGE(one["dropped"].at(0)["scope"] == "", one.dump());
    CHECK(db.rows("SELECT scope FROM skald.outbox") == "ann");
    CHECK(s.drop("orders", "NULL, 'a', 'gone', NULL, true")["dropped"].at(0)["scope"] == "ann");
}

TEST_CASE("of several messages with one id none is dropped, unless their destination leaves one, or all are meant")
{
    dropping_shop s;
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('mail', 'x', ':', ''), skald.enqueue('bill', 'x', ':', ''), "
           "skald.enqueue('mail', 'x', ':', '')");
    s.refuse("orders", "x");
    auto const all = s.drop("orders", "NULL, ':', 'gone'");
    CHECK(all["dropped"].empty());
    CHECK_MESSAGE(all["refused"].at(0)["messages"] == 3, all.dump());
    CHECK(s.drop("orders", "'mail', ':', 'gone'")["refused"].at(0)["messages"] == 2);
    CHECK(s.drop("orders", "'bill', ':', 'gone'")["dropped"].size() == 1);
    CHECK(s.drop("orders", "NULL, ':', 'gone', NULL, true")["dropped"].size() == 2);
    CHECK(db.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("all sagas whose messages are dropped at once are stuck")
{
    dropping_shop s;
    for (std::string const key : {"1", "2"}) s.order(key);
    s.at("orders").relay_due();
    while (s.at("orders").process_one()) continue;
    CHECK(s.drop("orders", "'payments', NULL, 'no such service', 'eve', true")["dropped"].size() == 2);
    for (std::string const key : {"1", "2"}) CHECK(s.saga_status(key) == "stuck");
    CHECK(s.at("orders").db.rows("SELECT key, step, service, status FROM skald.progress ORDER BY key") ==
          "1|charge-payment|payments|parked\n2|charge-payment|payments|parked");

    // A cancel of both is given, and says that it ends neither.
    skald::postgres::connection c{{.url = s.at("orders").db.url()}};
    skald::admin::order_progress many;
    skald::admin::issue(
        c, {.action = "cancel", .reason = "a test", .by = "eve"}, [] { return false; }, many);
    CHECK(many.done == 2);
    CHECK(many.left == 2);
    CHECK_MESSAGE(s.has(many.remains.dump(), "nothing of charge-payment is left to retry"), many.remains.dump());
}

TEST_CASE("no more are dropped at once than is said, and what is left is dropped when it is said again")
{
    dropping_shop s;
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('mail', 'x', 'm' || n, '') FROM generate_series(1, 5) AS n");
    auto const drop = [&] {
        return s.drop("orders", "'mail', NULL, 'gone', NULL, true, at_most => 2")["dropped"].size();
    };
    CHECK(drop() == 2);
    CHECK(db.one("SELECT count(*) FROM skald.outbox") == "3");
    CHECK(drop() == 2);
    CHECK(drop() == 1);
    CHECK(drop() == 0);
    CHECK(db.one("SELECT count(*) FROM skald.audit") == "5");
}

TEST_CASE("what a drop reports to the sagas' home stays where it drops what goes there")
{
    dropping_shop s;
    for (std::string const key : {"1", "2"}) s.order(key);
    for (auto const* const name : {"orders", "payments", "shipping"}) {
        s.at("orders").relay_due();
        s.at("payments").relay_due();
        while (s.at(name).process_one()) continue;
    }
    auto& shipping = s.at("shipping");
    shipping.db.run("DELETE FROM skald.outbox WHERE type <> 'confirm-order'");
    std::string before = "NULL";
    std::size_t dropped{};
    for (json did; did.empty() || !did["dropped"].empty(); before = "'" + did["before"].get<std::string>() + "'") {
        did = s.drop("shipping", "'orders', NULL, 'gone', 'eve', true, at_most => 1, before => " + before);
        dropped += did["dropped"].size();
    }
    CHECK(dropped == 2);
    CHECK(shipping.db.rows("SELECT type, aggregateid FROM skald.outbox ORDER BY id") ==
          "skald.progress|1\nskald.progress|2");
    s.run();
    for (std::string const key : {"1", "2"}) CHECK(s.saga_status(key) == "stuck");
}

TEST_CASE("what a relay is sending at this moment is not dropped")
{
    dropping_shop s;
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('mail', 'x', 'a', '')");
    skald::postgres::postgres_outbox relay{{.url = db.url()}};
    REQUIRE(relay.take(10).size() == 1);
    CHECK(s.drop("orders", "'mail', NULL, 'gone', NULL, true")["dropped"].empty());
}
