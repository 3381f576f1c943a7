// One order for many sagas: previewed, given in batches, audited as one act, and given again to go on.
#include "admin/order_for_many.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;
using admin::order_for_many;
using admin::order_progress;

namespace {

class many_orders : public test::stepped_shop
{
public:
    /// Orders 1 to `count`; those with an even number are bob's, the others ann's.
    explicit many_orders(int count)
    {
        for (int i = 1; i <= count; ++i) order(std::to_string(i));
        home().run("SELECT skald.add_attributes(scope, key, jsonb_build_object('customer', "
                   "CASE WHEN key::int % 2 = 0 THEN 'bob' ELSE 'ann' END)) FROM skald.saga");
    }

    test::database const& home() { return at("orders").db; }

    order_for_many for_bob(std::string const& action, int batch = 2)
    {
        order_for_many made{.action = action, .reason = "a test", .by = "eve"};
        made.filter.where = {{"customer", "bob"}};
        made.filter.limit = batch;
        return made;
    }

    order_progress give(order_for_many const& what, int batches_max = 1000)
    {
        postgres::connection c{{.url = home().url(), .lock_timeout = std::chrono::milliseconds{100}}};
        order_progress made;
        admin::issue(
            c, what, [&] { return batches_max-- == 0; }, made);
        return made;
    }

    std::string statuses() { return home().rows("SELECT key, status FROM skald.saga ORDER BY key::int"); }
    std::string commands() { return home().rows("SELECT key, action FROM skald.control ORDER BY key::int"); }
    std::string acts()
    {
        return home().rows(
            "SELECT verb, actor LIKE 'eve as %', detail->>'reason', detail->'filter', detail->>'matching', "
            "detail->>'done', detail->>'refused', detail->>'ended' FROM skald.audit "
            "WHERE verb LIKE 'sagas %' ORDER BY id");
    }
};

}  // namespace

TEST_CASE("a cancel of many cancels those that match, in every service, and is one act in the audit")
{
    many_orders s{7};
    auto const done = s.give(s.for_bob("cancel"));
    CHECK(done.matching == 3);
    CHECK(done.done == 3);
    CHECK(done.refused == 0);
    CHECK(done.has_ended);
    CHECK(s.acts() == "sagas cancel|t|a test|{\"where\": [\"customer=bob\"]}|3|3|0|true");
    s.run();
    CHECK(s.statuses() == "1|completed\n2|compensated\n3|completed\n4|compensated\n5|completed\n6|compensated\n"
                          "7|completed");
    // What each saga was told names the act, in every service.
    auto const act = "orders/" + std::to_string(done.act);
    for (auto const* name : {"orders", "payments", "shipping"})
        CHECK(
            s.at(name).db.rows("SELECT key, detail->>'act' FROM skald.audit WHERE verb = 'saga cancel' ORDER BY key") ==
            "2|" + act + "\n4|" + act + "\n6|" + act);
}

TEST_CASE("a preview counts and shows the oldest, says what would be refused, and changes nothing")
{
    many_orders s{6};
    s.home().run("UPDATE skald.saga SET status = 'stuck' WHERE key = '4'");
    postgres::connection c{{.url = s.home().url()}};
    auto const seen = admin::preview(c, s.for_bob("pause"), 2);
    CHECK(seen["matching"] == 3);
    REQUIRE(seen["sample"].size() == 2);
    CHECK(seen["sample"][0]["key"] == "2");
    CHECK(seen["sample"][0]["refused"].is_null());
    auto const retried = admin::preview(c, s.for_bob("retry"), 2);
    CHECK(retried["matching"] == 1);
    CHECK(retried["sample"][0]["refused"] == "no step of saga 4 is parked: it is stuck");
    CHECK(s.home().one("SELECT count(*) FROM skald.audit") == "0");
    CHECK(s.commands().empty());
}

TEST_CASE("an order that is stopped says how far it came, and given again it goes on with the rest")
{
    many_orders s{10};
    auto const first = s.give(s.for_bob("pause"), 1);
    CHECK(first.matching == 5);
    CHECK(first.done == 2);
    CHECK_FALSE(first.has_ended);
    CHECK(s.commands() == "2|pause\n4|pause");
    CHECK(s.acts() == "sagas pause|t|a test|{\"where\": [\"customer=bob\"]}|5|2|0|false");
    auto const rest = s.give(s.for_bob("pause"));
    CHECK(rest.matching == 3);
    CHECK(rest.done == 3);
    CHECK(s.commands() == "2|pause\n4|pause\n6|pause\n8|pause\n10|pause");
    CHECK(s.give(s.for_bob("pause")).act == 0);  // there is nothing left, and no act
    s.run();
    CHECK(s.home().one("SELECT count(*) FROM skald.saga WHERE status = 'completed'") == "5");

    CHECK(s.give(s.for_bob("resume")).done == 5);
    s.run();
    CHECK(s.home().one("SELECT count(*) FROM skald.saga WHERE finished_at IS NOT NULL") == "10");
}

TEST_CASE("what is refused is counted and told, and holds up no other")
{
    many_orders s{4};
    s.home().run("INSERT INTO skald.progress (scope, key, step, service, status, attempts, at) "
                 "VALUES ('', '2', 'arrange-shipping', 'shipping', 'completed', 1, now())");
    auto const done = s.give(s.for_bob("cancel"));
    CHECK(done.done == 1);
    CHECK(done.refused == 1);
    REQUIRE(done.refusals.size() == 1);
    CHECK(done.refusals[0]["key"] == "2");
    CHECK(done.refusals[0]["why"].get<std::string>().starts_with("saga 2 is past the pivot: arrange-shipping"));
    CHECK(s.commands() == "4|cancel");
    CHECK(s.acts() == "sagas cancel|t|a test|{\"where\": [\"customer=bob\"]}|2|1|1|true");
}

TEST_CASE("a saga that another transaction holds is left out, and the others of its batch are not")
{
    many_orders s{6};
    {
        pqxx::connection c{s.home().url()};
        pqxx::work holds{c};
        holds.exec("SELECT FROM skald.saga WHERE key = '4' FOR UPDATE");
        auto const done = s.give(s.for_bob("cancel", 10));
        CHECK(done.done == 2);
        CHECK(done.busy == 1);
        CHECK(s.commands() == "2|cancel\n6|cancel");
        CHECK(s.home().one("SELECT detail->>'busy' FROM skald.audit WHERE verb = 'sagas cancel'") == "1");
    }
    CHECK(s.give(s.for_bob("cancel")).done == 1);
    CHECK(s.commands() == "2|cancel\n4|cancel\n6|cancel");
}

TEST_CASE("an order that is stopped while another transaction holds a saga of its batch gives no further command")
{
    many_orders s{6};
    pqxx::connection c{s.home().url()};
    pqxx::work holds{c};
    holds.exec("SELECT FROM skald.saga WHERE key = '4' FOR UPDATE");
    // It is told so once, before the first saga of the batch that is given one by one.
    auto const done = s.give(s.for_bob("cancel"), 1);
    CHECK_FALSE(done.has_ended);
    CHECK(done.done == 0);
    CHECK(s.commands().empty());
}

TEST_CASE("an order whose end is not in the audit has not ended")
{
    many_orders s{2};
    s.home().run("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;"
                 "CREATE TRIGGER fail BEFORE UPDATE ON skald.audit FOR EACH ROW "
                 "WHEN (NEW.detail->>'ended' = 'true') EXECUTE FUNCTION fail()");
    postgres::connection c{{.url = s.home().url()}};
    order_progress made;
    CHECK_THROWS(admin::issue(
        c, s.for_bob("cancel"), [] { return false; }, made));
    CHECK(made.done == 1);
    CHECK_FALSE(made.has_ended);
}

TEST_CASE("a saga whose order loses a deadlock is left out, and the others of its batch are not")
{
    many_orders s{6};
    s.home().run("CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ "
                 "BEGIN IF NEW.key = '4' THEN RAISE deadlock_detected; END IF; RETURN NEW; END $$;"
                 "CREATE TRIGGER conflict BEFORE INSERT ON skald.control FOR EACH ROW EXECUTE FUNCTION conflict()");
    auto const done = s.give(s.for_bob("cancel", 10));
    CHECK(done.done == 2);
    CHECK(done.busy == 1);
    CHECK(s.commands() == "2|cancel\n6|cancel");
    s.home().run("DROP TRIGGER conflict ON skald.control");
    CHECK(s.give(s.for_bob("cancel")).done == 1);
}

TEST_CASE("stuck sagas are put back together, whatever their attributes")
{
    many_orders s{2};
    for (std::string const key : {"3", "4"}) {
        auto given_up = test::delivery_of(s.order_up_to("charge-payment", key));
        given_up.given_up = true;
        s.at("payments").process(given_up);
        s.run();
        REQUIRE(s.saga_status(key) == "stuck");
    }
    order_for_many all{.action = "retry"};
    all.filter.status = "stuck";
    auto const done = s.give(all);
    CHECK(done.matching == 2);
    CHECK(done.done == 2);
    s.run();
    CHECK(s.statuses() == "1|completed\n2|completed\n3|completed\n4|completed");
}

TEST_CASE("an order for sagas of an attribute that nobody named does nothing")
{
    many_orders s{2};
    auto wrong = s.for_bob("cancel");
    wrong.filter.where = {{"costumer", "bob"}};
    CHECK_THROWS_WITH_AS(s.give(wrong), "no saga here has the attribute costumer; there are: customer",
                         std::invalid_argument);
    CHECK(s.commands().empty());
}
