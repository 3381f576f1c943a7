// A trigger of somebody else's that swallows rows of Skald's tables: what would be lost without an error fails instead.
#include "support/stepped_shop.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace skald;
using skald::test::completed;
using skald::test::stepped_shop;

namespace {

/// Swallows every row of `table` on that event, until it is destroyed.
class swallowing
{
public:
    swallowing(test::database const& db, std::string table, std::string const& event = "INSERT")
        : db_{db}, table_{std::move(table)}
    {
        db_.run("CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
                "CREATE TRIGGER swallow BEFORE " +
                event + " ON skald." + table_ + " FOR EACH ROW EXECUTE FUNCTION swallow()");
    }
    ~swallowing() { db_.run("DROP FUNCTION swallow() CASCADE"); }
    swallowing(swallowing const&) = delete;
    swallowing& operator=(swallowing const&) = delete;

private:
    test::database const& db_;
    std::string table_;
};

ports::enqueued message(std::string const& id)
{
    core::message m;
    m.destination = m.type = "x";
    m.id = id;
    return {m, "", "d", "1", {}};
}

/// What the store says when it is to commit these changes.
std::string commit_error(test::database const& db, ports::changes const& changes)
try {
    postgres::postgres_store store{{.url = db.url()}};
    store.begin({});
    store.commit(changes);
    return "committed";
}
catch (ports::fault const& met) {
    return met.what();
}

}  // namespace

TEST_CASE("what the store commits fails where a row of it is swallowed, whichever it is, and names the table")
{
    test::database const db;
    core::saga_id const saga{"", "1"};
    ports::changes changes;
    std::string table, took = "took 0 of 1 rows", event = "INSERT";
    SUBCASE("a saga")
    {
        table = "saga";
        changes.sagas.push_back({saga, "d", 1, "{}", "i"});
    }
    SUBCASE("the record of a step that ran in a request")
    {
        table = "idempotency";
        changes.new_records.push_back({saga, "s", core::fingerprint_of("")});
    }
    SUBCASE("the outcome of a step")
    {
        table = "idempotency";
        event = "UPDATE";
        db.run("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', '1', 's')");
        changes.records.push_back({saga, "s", core::step_status::rejected, 1, 0, "no"});
    }
    SUBCASE("a response")
    {
        table = "response";
        changes.response = ports::stored_response{saga, 200, "text/plain", {}, "done"};
    }
    SUBCASE("a message")
    {
        table = "outbox";
        changes.messages.push_back(message("1"));
    }
    SUBCASE("several messages")
    {
        table = "outbox";
        took = "took 0 of 2 rows";
        changes.messages = {message("1"), message("2")};
    }
    SUBCASE("a parked delivery")
    {
        table = "parked";
        changes.parked.push_back({saga, "s", "unprocessable", "no", message("1").message, 0});
    }
    SUBCASE("a parked delivery that could not be read")
    {
        table = "parked";
        changes.parked.push_back({{}, "", "malformed", "no", message("1").message, 0, true});
    }
    {
        swallowing const some{db, table, event};
        auto const error = commit_error(db, changes);
        CHECK_MESSAGE(error.find("skald." + table + ' ' + took) != std::string::npos, error);
    }
    CHECK_MESSAGE(commit_error(db, changes) == "committed", "and not where none is");
}

TEST_CASE("the same delivery is parked once, and the second time is no error")
{
    test::database const db;
    ports::changes changes;
    changes.parked.push_back({{"", "1"}, "s", "unprocessable", "no", message("1").message, 0});
    CHECK(commit_error(db, changes) == "committed");
    CHECK(commit_error(db, changes) == "committed");
    CHECK(db.one("SELECT count(*) FROM skald.parked") == "1");
}

TEST_CASE("a step whose record or message is swallowed does nothing, is parked, and runs once when that is over")
{
    stepped_shop s;
    auto& payments = s.at("payments");
    std::string table, took;
    SUBCASE("its record")
    {
        table = "idempotency";
        took = "took 0 of 1 rows";
    }
    SUBCASE("the message to the next step, and the report")
    {
        table = "outbox";
        took = "took 0 of 2 rows";
    }
    s.order_up_to("charge-payment");
    {
        swallowing const some{payments.db, table};
        test::running_lanes const lanes{payments, 1};
        CHECK(testing::wait_until([&] { return s.parked() == "payments|unprocessable|1"; }, std::chrono::seconds{60}));
    }
    auto const error = payments.db.one("SELECT error FROM skald.parked");
    CHECK_MESSAGE(error.find("skald." + table + ' ' + took) != std::string::npos, error);
    CHECK(payments.db.one("SELECT count(*) FROM charge") == "0");
    CHECK(payments.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a saga whose row is swallowed is not started, in SQL neither")
{
    stepped_shop s;
    std::string table;
    SUBCASE("its own")
    {
        table = "saga";
    }
    SUBCASE("its record")
    {
        table = "idempotency";
    }
    SUBCASE("its first message")
    {
        table = "outbox";
    }
    {
        swallowing const some{s.at("orders").db, table};
        CHECK_THROWS_WITH(s.order("1"), doctest::Contains(("skald." + table + " took 0 of 1 rows").c_str()));
    }
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.saga") == "0");
    s.order("1");
    s.run();
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a message that can't be sent and is to wait is not lost where its new row is swallowed")
{
    test::database const db;
    postgres::postgres_outbox outbox{{.url = db.url()}};
    db.run("SELECT skald.enqueue('x', 'skald.x', 'k', '')");
    auto const taken = outbox.take(10);
    REQUIRE(taken.size() == 1);
    {
        swallowing const some{db, "outbox"};
        CHECK_THROWS(outbox.resolve({}, {{taken[0].id, "no queue", std::chrono::milliseconds{0}}}));
    }
    CHECK(db.one("SELECT count(*) FROM skald.outbox") == "1");
}
