// A step that does what it must not, or whose database fails under it: nothing of it remains, or nothing is lost.
#include "support/busy_depot.hpp"
#include "support/kit_depot.hpp"
#include "support/required.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using skald::test::depot;
using skald::test::kit_depot;
using skald::test::note;
using skald::test::parcel;

TEST_CASE("F1, G9: a step that swallows an SQL error can't commit by accident")
{
    kit_depot d;
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
    CHECK(d.one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("SAVEPOINT") != std::string::npos);
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
    CHECK_THROWS_AS(d.at("depot").process_one(), skald::test::not_processed);
    d.at("depot").process(skald::test::delivery_of(d.last_sent("pack")));
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
        skald::test::running_lanes const some{d.at("depot"), 1};
        CHECK(skald::testing::wait_until([&] {
            d.at("depot").relay_due();
            return d.sagas() == "compensated 1, completed 9";
        }));
    }
    CHECK(d.once_each());
}

TEST_CASE("a step may go on after an SQL error that a savepoint of its own has contained")
{
    kit_depot d;
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
    kit_depot d;
    d.one("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES parent DEFERRABLE "
          "INITIALLY DEFERRED)");
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("INSERT INTO child VALUES (1)");
        ctx.publish("elsewhere", "weighed", {});
        return skald::done();
    };
    d.go();
    CHECK(d.record("weigh") == "rejected|3|0");
    CHECK(d.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("commit() on the step's transaction object commits nothing")
{
    kit_depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        ctx.tx().commit();
        throw std::runtime_error{"after commit()"};
    };
    d.go();
    CHECK(d.effects() == "pack, undo pack");
}

// Its commit() told the server nothing, and so does that of another database's: neither has ended the transaction.
TEST_CASE("a step that uses a transaction object after its commit() fails, and nothing of it remains")
{
    for (bool const of_another : {false, true}) {
        CAPTURE(of_another);
        kit_depot d;
        pqxx::connection other{skald::test::required("DATABASE_URL")};
        d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
            note(ctx, "weigh");
            pqxx::work own{other};
            auto& used = of_another ? static_cast<pqxx::transaction_base&>(own) : ctx.tx();
            used.commit();
            used.exec("SELECT 1");
            return skald::done();
        };
        d.go();
        CHECK(d.effects() == "pack, undo pack");
        CHECK(d.record("weigh").starts_with("rejected"));
        CHECK(d.parked() == "");
    }
}

TEST_CASE("a step that runs COMMIT itself is found out: parked, the saga stuck, nothing goes on")
{
    for (bool const then_throws : {false, true}) {
        CAPTURE(then_throws);
        kit_depot d;
        d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
            note(ctx, "weigh");
            ctx.tx().exec("COMMIT");
            if (then_throws) throw std::runtime_error{"after COMMIT"};
            return skald::done();
        };
        d.go();
        CHECK(d.effects() == "pack");
        CHECK(d.record("weigh").starts_with("parked"));
        CHECK(d.kit().saga_is("k", "stuck"));
        CHECK(d.parked() == "transaction_ended");
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
                        d.at("depot").process(skald::test::delivery_of(d.last_sent("weigh")));
                    }
                    catch (skald::test::not_processed const&) {
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

TEST_CASE("a serialization failure runs the step again and costs no attempt, within a bound")
{
    kit_depot d;
    d.one("CREATE OR REPLACE FUNCTION conflict() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END "
          "$$");
    int runs = 0;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        if (++runs <= 2) ctx.sql("SELECT conflict()");
        return skald::done();
    };
    d.go();
    CHECK(runs == 3);
    CHECK(d.record("weigh") == "completed|1|0");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("G13: a key that another transaction has comes back later and is not taken for done")
{
    kit_depot d;
    d.weigh = skald::test::done("weigh");
    pqxx::connection other{d.kit().database_url("depot")};
    pqxx::work holding{other};
    holding.exec("SELECT skald.claim(ARRAY[''], ARRAY['k'], ARRAY['weigh'], ARRAY[sha256('x')])");
    d.go();
    CHECK(d.effects() == "pack");
    CHECK(d.one("SELECT count(*) FROM skald.outbox WHERE due_at > now()") == "1");
    holding.abort();
    d.kit().run_to_the_end();
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("F18: a message that the wire could not carry fails the step, by the name of its constraint")
{
    kit_depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.publish(std::string(300, 'd'), "far", "x");
        return skald::done();
    };
    d.go();
    CHECK(d.one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("destination_fits_a_routing_key") !=
          std::string::npos);
}
