// A step that does what it must not, or whose database fails under it: nothing of it remains, or nothing is lost.
#include "support/depot.hpp"

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
        CHECK(d.effects() == "pack, weigh");
        CHECK(d.record("weigh").starts_with("parked"));
        CHECK(d.saga_status("k") == "stuck");
        CHECK(d.parked() == "depot|transaction_ended|1");
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
