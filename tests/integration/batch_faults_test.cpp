// Many deliveries in one transaction, where a step does what it must not, or the database fails under them: no
// neighbour is harmed, and nothing is done twice.
#include "runtime/executor.hpp"
#include "support/busy_depot.hpp"
#include "support/doubtful_store.hpp"
#include "support/server_setting.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <span>

using namespace std::chrono_literals;
using skald::test::busy_depot;
using skald::test::note;
using skald::test::parcel;

namespace {

// What a step may send that ends a transaction of which it is not the owner; and whether it goes on afterwards.
struct rogue
{
    char const* sql;
    bool hides_the_error;
};

constexpr rogue rogues[]{
    {"COMMIT", false},
    {"COMMIT", true},
    {"ROLLBACK", false},
    {"ROLLBACK", true},
    {"END", true},
    {"COMMIT AND CHAIN", true},
    {"ROLLBACK AND CHAIN", true},
    {"ROLLBACK; BEGIN", true},
    {"COMMIT; BEGIN", true},
    {"ROLLBACK; BEGIN READ WRITE", true},
    {"PREPARE TRANSACTION 'x'", true},
};

}  // namespace

TEST_CASE("G9: a step that ends the transaction in the middle of a batch harms none of its neighbours")
{
    for (auto const& one : rogues) {
        CAPTURE(one.sql);
        CAPTURE(one.hides_the_error);
        busy_depot d;
        d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "weigh:" + p.id);
            if (p.id != "p3") return skald::done();
            try {
                ctx.tx().exec(one.sql);
            }
            catch (std::exception const&) {
                if (!one.hides_the_error) throw;
            }
            return skald::done();
        };
        d.start_all(6);
        d.run_all();
        // Each of the others once, whatever became of the one.
        CHECK(d.db().one("SELECT count(*) FROM effect WHERE what LIKE 'weigh:%' AND what <> 'weigh:p3'") == "5");
        CHECK(d.db().one("SELECT count(*) FROM effect WHERE what LIKE 'sign:%' AND what <> 'sign:p3'") == "5");
        CHECK(d.once_each());
        CHECK(d.db().one("SELECT count(*) FROM skald.saga WHERE status = 'completed' AND key <> 'p3'") == "5");
        CHECK(d.db().one("SELECT status FROM skald.saga WHERE key = 'p3'") != "completed");
    }
}

TEST_CASE("what a step writes behind its own ROLLBACK does not get in")
{
    busy_depot d;
    d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        if (p.id == "p2") ctx.tx().exec("ROLLBACK");
        note(ctx, "weigh:" + p.id);
        return skald::done();
    };
    d.start_all(4);
    d.run_all();
    CHECK(d.counts() == "load 3, pack 4, sign 3, weigh 3");
    CHECK(d.once_each());
    CHECK(d.parked() == "depot|transaction_ended|1");
}

TEST_CASE("a constraint that fails only at COMMIT fails one attempt, and the others are done")
{
    busy_depot d;
    d.db().run("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES parent DEFERRABLE "
               "INITIALLY DEFERRED)");
    d.weigh = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "weigh:" + p.id);
        if (p.id == "p1") ctx.sql("INSERT INTO child VALUES (1)");
        return skald::done();
    };
    d.start_all(5);
    d.run_all();
    CHECK(d.counts() == "load 4, pack 5, sign 4, undo pack 1, weigh 4");
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT status || '|' || attempts FROM skald.idempotency WHERE key = 'p1' AND step = 'weigh'") ==
          "rejected|3");
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency WHERE key <> 'p1'") == "1");
}

TEST_CASE("a connection that dies in the middle of a batch costs no attempt")
{
    busy_depot d;
    bool died = false;
    d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "weigh:" + p.id);
        if (p.id == "p2" && !std::exchange(died, true)) {
            auto const pid = ctx.tx().exec("SELECT pg_backend_pid()")[0][0].as<std::string>();
            d.db().run("SELECT pg_terminate_backend(" + pid + ")");
            ctx.tx().exec("SELECT 1");
        }
        return skald::done();
    };
    d.start_all(4);
    d.step();
    d.at("depot").relay_due();
    CHECK(d.at("depot").process_all() == 4);
    CHECK(died);
    d.run_all();
    CHECK(d.counts() == "load 4, pack 4, sign 4, weigh 4");
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
    CHECK(d.sagas() == "completed 4");
}

TEST_CASE("F2, G10: a batch whose COMMIT is in doubt is processed one by one, and each is done once")
{
    using loses = skald::test::doubtful_store::loses;
    for (auto const loss : {loses::the_answer, loses::the_commit})
        for (bool const in_turn : {false, true}) {
            CAPTURE(static_cast<int>(loss));
            CAPTURE(in_turn);
            busy_depot d;
            d.pack = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
                note(ctx, "pack:" + p.id);
                if (in_turn && p.id == "p2") return skald::reject("no");
                return skald::done();
            };
            d.start_all(4);
            d.at("depot").relay_due();
            skald::test::doubtful_store store{d.db().url()};
            auto apart = d.at("depot").executor_on(store);
            auto const all = d.at("depot").take_all();
            REQUIRE(all.size() == 4);
            store.next = loss;
            auto together = d.at("depot").route(all);
            auto const met = apart.run(together);
            REQUIRE_FALSE(met.processed());
            CHECK(met.not_processed->why == skald::runtime::failure::in_doubt);
            CHECK(met.not_processed->then == skald::runtime::reaction::each_alone);
            for (auto const& one : all) d.at("depot").process_on(apart, one);
            CHECK(d.counts() == (in_turn ? "pack 3" : "pack 4"));
            d.run_all();
            CHECK(d.once_each());
            CHECK(d.sagas() == (in_turn ? "compensated 1, completed 3" : "completed 4"));
        }
}

TEST_CASE("what is nothing but duplicates is still a transaction after it has waited for the standbys")
{
    for (std::size_t const count : {1U, 2U}) {
        CAPTURE(count);
        skald::test::database db{"depot"};
        skald::postgres::connection_options const options{.url = db.url()};
        skald::postgres::postgres_store store{options};
        skald::ports::claim_item const a{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}};
        auto b = a;
        b.saga.key = "b";
        std::vector<skald::ports::claim_item> items{a, b};
        items.resize(count);
        store.begin(items, {});
        // Without which nothing would wait.
        store.unit().tx().exec("SET synchronous_commit = off");
        store.commit({});
        db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', 'a', 'send', '{}', '')");

        skald::test::absent_standby standby;
        {
            std::jthread const operator_of_the_server{[&] {
                CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) != "0"; }));
                standby.reset();
            }};
            for (auto const& met : store.begin(items, {})) CHECK(met.result == skald::ports::claim_result::duplicate);
        }
        skald::ports::changes told;
        told.progress.push_back(
            R"([{"scope":"","key":"a","step":"weigh","service":"scales","status":"completed","attempts":1,)"
            R"("at":"2026-01-01T00:00:00Z"}])");
        store.commit(told);
        CHECK(db.one("SELECT key FROM skald.progress") == "a");
    }
}

TEST_CASE("a claim that fails behind its wait for the standbys leaves the next one its own wait")
{
    skald::test::database db{"depot"};
    skald::postgres::postgres_store store{{.url = db.url()}};
    std::array const one{skald::ports::claim_item{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}}};
    store.begin(one, {});
    store.commit({});
    {
        skald::test::absent_standby standby;
        std::jthread const operator_of_the_server{[&] {
            CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) != "0"; }));
            db.run("SET LOCAL synchronous_commit = off; ALTER TABLE skald.idempotency RENAME TO idempotency_away");
            standby.reset();
        }};
        CHECK_THROWS_AS(store.begin(one, {}), skald::ports::fault);
    }
    db.run("ALTER TABLE skald.idempotency_away RENAME TO idempotency");
    skald::test::absent_standby const standby;
    skald::test::impatient_operator const cuts{db.one("SELECT current_database()")};
    CHECK_THROWS_WITH_AS(store.begin(one, {}), doctest::Contains("possibly not durably"), skald::ports::fault);
}

TEST_CASE("while the standbys are away a lane that meets duplicates has one session that waits for them")
{
    skald::test::database db{"depot"};
    skald::postgres::postgres_store store{{.url = db.url(), .statement_timeout = 500ms, .commit_timeout = 500ms}};
    std::array const one{skald::ports::claim_item{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}}};
    store.begin(one, {});
    store.commit({});
    skald::test::absent_standby const standby;
    for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(store.begin(one, {}), skald::ports::fault);
    CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) == "1"; }));
}

TEST_CASE("what is undone to a savepoint is undone alone, and the rest commits")
{
    skald::test::database db{"depot"};
    db.run("CREATE TABLE effect (what text)");
    skald::postgres::postgres_store store{{.url = db.url()}};
    skald::ports::claim_item const a{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}};
    auto b = a;
    b.saga.key = "b";
    std::vector<skald::ports::claim_item> const items{a, b};
    store.begin(items);
    for (auto const* what : {"first", "second", "third"}) {
        store.savepoint();
        store.unit().tx().exec(std::string{"INSERT INTO effect VALUES ('"} + what + "')");
        if (what == std::string_view{"second"}) store.undo_to_savepoint();
    }
    store.commit({});
    CHECK(db.one("SELECT string_agg(what, ' ' ORDER BY what) FROM effect") == "first third");
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "2");
}

TEST_CASE("a savepoint on a connection that was lost says so, and nothing remains")
{
    skald::test::database db{"depot"};
    skald::postgres::postgres_store store{{.url = db.url()}};
    skald::ports::claim_item const a{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}};
    auto b = a;
    b.saga.key = "b";
    std::vector<skald::ports::claim_item> const items{a, b};
    store.begin(items);
    store.savepoint();
    db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
           " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    CHECK_THROWS_AS(store.savepoint(), skald::ports::fault);
    store.rollback();
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "0");
    CHECK(store.begin(items).front().result == skald::ports::claim_result::fresh);
    store.commit({});
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "2");
}

TEST_CASE(
    "transactions that take the same rows in opposite order both come to their end, without a deadlock or an attempt")
{
    busy_depot d;
    d.db().run(
        "CREATE TABLE shelf (id int PRIMARY KEY, n int); INSERT INTO shelf SELECT i, 0 FROM generate_series(1, 8) i");
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        // Half of them go up the shelves, the others down.
        ctx.sql("UPDATE shelf SET n = n + 1 WHERE id = $1", p.weight <= 32 ? (p.weight - 1) % 8 + 1 : 8 - p.weight % 8);
        return skald::done();
    };
    d.start_all(64);
    auto const before = d.db().one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    {
        skald::test::running_lanes const lanes{d.at("depot"), 4, 8};
        d.at("depot").relay_due();
        CHECK(skald::testing::wait_until([&] { return d.counts() == "pack 64"; }));
    }
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT sum(n) FROM shelf") == "64");
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
    CHECK(d.db().one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before);
    CHECK(d.db().one("SELECT count(*) FROM skald.outbox WHERE type = 'weigh'") == "64");
}
