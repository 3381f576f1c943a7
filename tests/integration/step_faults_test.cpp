// A step that does what it must not, or whose database fails under it: nothing of it remains, or nothing is lost.
#include "support/busy_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using skald::test::depot;
using skald::test::note;
using skald::test::parcel;

TEST_CASE("F1, G9: a step that swallows an SQL error can't commit by accident")
{
    depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        try {
            ctx.sql("SELECT 1/0");
        }
        catch (std::exception const&) {
        }
        return skald::done();
    };
    d.go();
    CHECK(d.effects() == "pack, undo pack");
    CHECK(d.record("weigh") == "rejected|3|0");
    CHECK(d.db().one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("SAVEPOINT") !=
          std::string::npos);
}

TEST_CASE("a step that swallows an SQL error is not believed when it then rejects or asks for time")
{
    for (bool const rejects : {true, false})
        for (bool const is_batch : {true, false}) {
            CAPTURE(rejects);
            CAPTURE(is_batch);
            skald::test::busy_depot d;
            d.pack = [rejects](skald::step_context& ctx, parcel& p) -> skald::outcome {
                note(ctx, "pack:" + p.id);
                if (p.id != "p1") return skald::done();
                try {
                    ctx.sql("SELECT 1/0");
                }
                catch (std::exception const&) {
                }
                if (rejects) return skald::reject("there is no room");
                return skald::snooze(1ms);
            };
            d.start_all(is_batch ? 3 : 1);
            d.run_all();
            CHECK(d.db().one("SELECT status || ' ' || attempts || ' ' || snoozes FROM skald.idempotency"
                             " WHERE key = 'p1' AND step = 'pack'") == "rejected 3 0");
            CHECK(d.db()
                      .one("SELECT error FROM skald.idempotency WHERE key = 'p1' AND step = 'pack'")
                      .find("SAVEPOINT") != std::string::npos);
        }
}

TEST_CASE("a step that swallows the loss of its connection is not believed when it then rejects")
{
    depot d;
    int runs = 0;
    d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "pack");
        if (++runs > 1) return skald::done();
        try {
            ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        }
        catch (std::exception const&) {
        }
        return skald::reject("the till does not answer");
    };
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    CHECK_THROWS_AS(d.at("depot").settle_one(), skald::ports::fault);
    d.at("depot").settle(skald::test::world::delivery_of(d.last_sent("pack")));
    d.run();
    CHECK(d.record("pack") == "completed|1|0");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("a step that forgets all that its session has prepared harms nobody after it")
{
    skald::test::busy_depot d;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        if (p.id == "p1") ctx.tx().exec("DEALLOCATE ALL");
        return skald::done();
    };
    d.start_all(10);
    {
        skald::test::service::running_lanes const some{d.at("depot"), 1};
        CHECK(skald::testing::wait_until([&] {
            d.at("depot").relay_due();
            return d.sagas() == "compensated 1, completed 9";
        }));
    }
    CHECK(d.once_each());
}

TEST_CASE("a step may go on after an SQL error that a savepoint of its own has contained")
{
    depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.tx().exec("SAVEPOINT own");
        try {
            ctx.sql("SELECT 1/0");
        }
        catch (pqxx::sql_error const&) {
            ctx.tx().exec("ROLLBACK TO own");
        }
        note(ctx, "weigh");
        return skald::done();
    };
    d.go();
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("G9: a constraint that fails at COMMIT is a failed attempt, and nothing is published")
{
    depot d;
    d.db().run("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES parent DEFERRABLE "
               "INITIALLY DEFERRED)");
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("INSERT INTO child VALUES (1)");
        ctx.publish("elsewhere", "weighed", {});
        return skald::done();
    };
    d.go();
    CHECK(d.record("weigh") == "rejected|3|0");
    CHECK(d.db().one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("commit() on the step's transaction object commits nothing")
{
    depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        ctx.tx().commit();
        throw std::runtime_error{"after commit()"};
    };
    d.go();
    CHECK(d.effects() == "pack, undo pack");
}

TEST_CASE("a step that runs COMMIT itself is found out: parked, the saga stuck, nothing goes on")
{
    for (bool const then_throws : {false, true}) {
        CAPTURE(then_throws);
        depot d;
        d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
            note(ctx, "weigh");
            ctx.tx().exec("COMMIT");
            if (then_throws) throw std::runtime_error{"after COMMIT"};
            return skald::done();
        };
        d.go();
        CHECK(d.effects() == "pack");
        CHECK(d.record("weigh").starts_with("parked"));
        CHECK(d.saga_status("k") == "stuck");
        CHECK(d.parked() == "depot|transaction_ended|1");
    }
}

TEST_CASE(
    "whatever a step does around a COMMIT of its own, nothing of it is committed, and its saga does not stay running")
{
    std::vector<std::vector<std::string>> const all{
        {"COMMIT", "BEGIN"},
        {"COMMIT; BEGIN"},
        {"COMMIT AND CHAIN"},
        {"END", "BEGIN READ WRITE"},
        {"COMMIT", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "BEGIN"},
        {"COMMIT", "SELECT 1/0"},
        {"COMMIT", "BEGIN", "COMMIT"},
        {"SET CONSTRAINTS ALL DEFERRED", "COMMIT"},
        {"PREPARE TRANSACTION 'mine'"},
    };
    for (bool const swallows : {false, true})
        for (bool const at_a_retry : {false, true})
            for (auto const& statements : all) {
                CAPTURE(swallows);
                CAPTURE(at_a_retry);
                CAPTURE(statements.front() + " / " + statements.back());
                depot d;
                d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
                    note(ctx, "weigh");
                    if (at_a_retry && ctx.attempt() == 1) throw std::runtime_error{"the first time"};
                    for (auto const& one : statements) try {
                            ctx.tx().exec(one);
                        }
                        catch (std::exception const&) {
                            if (!swallows) throw;
                        }
                    return skald::done();
                };
                for (int tries = 0; tries < 20; ++tries) try {
                        tries == 0 ? d.go() : d.run();
                        d.at("depot").settle(skald::test::world::delivery_of(d.last_sent("weigh")));
                    }
                    catch (skald::ports::fault const&) {
                    }
                d.run();
                CHECK(d.db().one("SELECT count(*) FROM effect WHERE what = 'weigh'") == "0");
                CHECK(d.saga_status("k") != "running");
                CHECK(d.saga_status("k") != "completed");
            }
}

TEST_CASE("a step may look whether its deferred constraints hold")
{
    for (int const parcels : {1, 4}) {
        CAPTURE(parcels);
        skald::test::busy_depot d;
        d.db().run(
            "CREATE FUNCTION look() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; END $$");
        d.weigh = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "weigh:" + p.id);
            ctx.tx().exec("SET CONSTRAINTS ALL IMMEDIATE");
            ctx.tx().exec("SELECT look()");
            return skald::done();
        };
        d.start_all(parcels);
        d.run_all();
        CHECK(d.once_each());
        CHECK(d.parked().empty());
        CHECK(d.db().one("SELECT count(*) FROM skald.saga WHERE status = 'completed'") == std::to_string(parcels));
    }
}

TEST_CASE("a connection that dies under a step costs no attempt, and the step runs again")
{
    depot d;
    int runs = 0;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        if (++runs == 1) ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        return skald::done();
    };
    try {
        d.go();
    }
    catch (skald::ports::fault const& met) {
        CHECK(met.kind == skald::ports::fault_kind::connection_lost);
    }
    CHECK_MESSAGE(d.record("weigh").empty(), "the delivery is not settled, so nobody may ack it");
    d.at("depot").settle(skald::test::world::delivery_of(d.last_sent("weigh")));
    d.run();
    CHECK(runs == 2);
    CHECK(d.record("weigh") == "completed|1|0");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("a step that loses its connection each time counts in the end, and whoever works beside it goes on")
{
    skald::test::busy_depot d;
    constexpr int good = 30, bad = 6;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        if (p.weight <= bad) ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        return skald::done();
    };
    d.start_all(good + bad);
    {
        skald::test::service::running_lanes const some{d.at("depot"), 4};
        CHECK(skald::testing::wait_until([&] {
            d.at("depot").relay_due();
            return d.sagas() == "compensated 6, completed 30";
        }));
    }
    CHECK(d.counts() == "load 30, pack 30, sign 30, weigh 30");
    CHECK(d.once_each());
    CHECK(d.db().rows("SELECT DISTINCT status, attempts FROM skald.idempotency WHERE step = 'pack' ORDER BY 1") ==
          "completed|1\nrejected|3");
    CHECK(d.db().one("SELECT count(*) FROM skald.parked") == "0");
}

TEST_CASE("a step whose session the server ends is told so, and when, and where to look")
{
    depot d;
    std::string const said = "s after the claim: the server ends one that is silent for 30 s in a transaction";
    bool asks_again = true;
    auto const wait_silently = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("SET LOCAL idle_in_transaction_session_timeout = 50");
        auto const pid = ctx.sql("SELECT pg_backend_pid()")[0][0].as<std::string>();
        CHECK(skald::testing::wait_until(
            [&] { return d.db().one("SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid) == "0"; }));
        if (asks_again) ctx.sql("SELECT $1::text", "x");
        return skald::done();
    };
    SUBCASE("silent for too long")
    {
        d.pack = wait_silently;
    }
    SUBCASE("silent for too long, and no word to the database afterwards")
    {
        asks_again = false;
        d.pack = wait_silently;
    }
    SUBCASE("ended by an administrator between two statements")
    {
        d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
            auto const pid = ctx.sql("SELECT pg_backend_pid()")[0][0].as<std::string>();
            d.db().run("SELECT pg_terminate_backend(" + pid + ", 5000)");
            ctx.sql("SELECT $1::text", pid);
            return skald::done();
        };
    }
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    {
        skald::test::service::running_lanes const some{d.at("depot"), 1};
        CHECK(skald::testing::wait_until([&] { return !d.record("pack").empty(); }));
    }
    auto const recorded = d.db().one("SELECT error FROM skald.idempotency WHERE step = 'pack'");
    CHECK_MESSAGE(recorded.find(said) != std::string::npos, recorded);
}

TEST_CASE("a step that is silent for longer than its session may be has used an attempt, the first time already")
{
    depot d;
    bool asks_again{};
    int runs = 0;
    SUBCASE("it finds out itself") { asks_again = true; }
    SUBCASE("COMMIT finds out, and whether it got through") { asks_again = false; }
    d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "pack");
        ++runs;
        auto const pid = ctx.sql("SELECT pg_backend_pid()")[0][0].as<std::string>();
        CHECK(skald::testing::wait_until(
            [&] { return d.db().one("SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid) == "0"; }));
        if (asks_again) ctx.sql("SELECT $1::text", "x");
        return skald::done();
    };
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    auto tasks = d.at("depot").read(d.at("depot").take_all());
    REQUIRE(tasks.size() == 1);
    skald::postgres::postgres_store store{{.url = d.db().url(), .idle_in_transaction_timeout = 200ms}};
    CHECK(d.at("depot").executor_on(store).run(tasks).settled());
    CHECK(runs == 1);
    CHECK(d.effects().empty());
    CHECK(d.record("pack") == "retrying|1|0");
}

TEST_CASE("a serialization failure runs the step again and costs no attempt, within a bound")
{
    depot d;
    d.db().run("CREATE FUNCTION conflict() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END $$");
    int runs = 0;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        if (++runs <= 2) ctx.sql("SELECT conflict()");
        return skald::done();
    };
    for (int tries = 0; tries < 3; ++tries) {
        try {
            if (tries == 0) d.go();
            else d.at("depot").settle(skald::test::world::delivery_of(d.last_sent("weigh")));
        }
        catch (skald::ports::fault const& met) {
            CHECK(met.kind == skald::ports::fault_kind::contended);
        }
    }
    d.run();
    CHECK(d.record("weigh") == "completed|1|0");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("G13: a key that another transaction has comes back later and is not taken for done")
{
    depot d;
    d.weigh = skald::test::done("weigh");
    pqxx::connection other{d.db().url()};
    pqxx::work holding{other};
    holding.exec("SELECT skald.claim(ARRAY[''], ARRAY['k'], ARRAY['weigh'], ARRAY[sha256('x')])");
    d.go();
    CHECK(d.effects() == "pack");
    CHECK(d.db().one("SELECT count(*) FROM skald.outbox WHERE due_at > now()") == "1");
    holding.abort();
    d.at("depot").make_due();
    d.run();
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("F18: a message that the wire could not carry fails the step, by the name of its constraint")
{
    depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.publish("depot", "big", std::string(1'100'000, 'x'));
        return skald::done();
    };
    d.go();
    CHECK(d.db().one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("payload_is_at_most_1_mib") !=
          std::string::npos);
}
