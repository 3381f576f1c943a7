// What a step does to the session in which it runs ends with its transaction: the next step on that connection, and
// whoever waits beside it, meets nothing of it.
#include "postgres/postgres_store.hpp"
#include "support/busy_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using skald::test::depot;
using skald::test::note;
using skald::test::parcel;

namespace {

/// Sagas p1, p2, ... of which the first one's `pack` does something to its session. What the others' `pack` meets there
/// is in `met`.
class shared_session : public depot
{
public:
    explicit shared_session(std::string does, std::string asks = "SELECT 1")
    {
        pack = [does, asks, this](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "pack:" + p.id);
            if (p.id == "p1") ctx.tx().exec(does);
            else met = ctx.tx().exec(asks)[0][0].as<std::string>("");
            return skald::done();
        };
        host();
    }

    /// Settles the first delivery of a new saga on the service's one connection.
    void pack_next()
    {
        auto const id = "p" + std::to_string(++parcels_);
        start(skald::test::send, parcel{id, 1}, id);
        at("depot").relay_due();
        while (at("depot").process_all(1) > 0) {}
    }

    std::string packed(std::string const& id)
    {
        return db().rows("SELECT status, attempts FROM skald.idempotency WHERE step = 'pack' AND key = '" + id + "'");
    }

    std::string met;

private:
    int parcels_{};
};

/// What the second saga's step meets, once the first one's has done that.
std::string met_behind(std::string const& does, std::string const& asks)
{
    shared_session s{does, asks};
    s.pack_next();
    s.pack_next();
    CHECK(s.packed("p1") == "completed|1");
    CHECK(s.packed("p2") == "completed|1");
    return s.met;
}

std::string setting_behind(std::string const& does, std::string const& name)
{
    return met_behind(does, "SELECT current_setting('" + name + "', true)");
}

}  // namespace

TEST_CASE("who reads on a connection meets nothing that a step left there")
{
    skald::test::database db{"depot"};
    skald::postgres::postgres_store store{{.url = db.url()}};
    skald::ports::claim_item const a{{"", "a"}, "pack", std::string(32, 'f'), 1, false, {}};
    store.begin(std::vector{a});
    store.unit().tx().exec("SET synchronous_commit = off; SET ROLE pg_monitor");
    store.commit({});
    auto const seen = store.read([](skald::postgres::connection& c) {
        return std::string{
            c.run("SELECT current_setting('synchronous_commit') || '|' || current_setting('role')")[0][0].c_str()};
    });
    CHECK(seen == "on|none");
}

TEST_CASE("G25: a setting that a step left in its session is not there in the next step")
{
    struct one
    {
        std::string does, name, first;
    };
    for (auto const& s : std::vector<one>{
             {"SET search_path = elsewhere", "search_path", "\"$user\", public"},
             {"SET session_replication_role = replica", "session_replication_role", "origin"},
             {"SET row_security = off", "row_security", "on"},
             {"SET statement_timeout = '1h'", "statement_timeout", "30s"},
             {"SET lock_timeout = 0", "lock_timeout", "200ms"},
             {"SET idle_in_transaction_session_timeout = 0", "idle_in_transaction_session_timeout", "30s"},
             {"SET default_transaction_isolation = serializable", "default_transaction_isolation", "read committed"},
             {"SET synchronous_commit = off", "synchronous_commit", "on"},
             {"SET datestyle = 'German'", "datestyle", "ISO, DMY"},
             {"RESET ALL", "lock_timeout", "200ms"},
             {"SELECT set_config('app.tenant', 'p1', false)", "app.tenant", ""}}) {
        CAPTURE(s.does);
        auto const met = setting_behind(s.does, s.name);
        if (s.name == "datestyle") CHECK(met.starts_with("ISO"));
        else CHECK(met == s.first);
    }
}

TEST_CASE("a role that a step took on is not the next step's")
{
    depot roles;
    auto const name = "somebody_" + roles.db().one("SELECT current_database()");
    roles.db().run("CREATE ROLE " + name + " SUPERUSER");
    CHECK(met_behind("SET ROLE " + name, "SELECT current_user = session_user") == "t");
    CHECK(met_behind("SET SESSION AUTHORIZATION " + name, "SELECT session_user <> '" + name + "'") == "t");
    roles.db().run("DROP ROLE " + name);
}

TEST_CASE("tables, cursors and channels that a step left in its session are not there in the next step")
{
    CHECK(met_behind("DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
                     "SELECT count(*) FROM pg_cursors WHERE name = 'mine'") == "0");
    CHECK(met_behind("LISTEN mine", "SELECT count(*) FROM pg_listening_channels()") == "0");
    CHECK(met_behind("CREATE TEMP TABLE mine (n int)", "SELECT to_regclass('mine')::text") == "");
}

TEST_CASE("a temporary table that a step left behind does not take what the next one writes")
{
    shared_session s{"CREATE TEMP TABLE effect (n serial, what text)"};
    s.pack_next();
    s.pack_next();
    CHECK(s.db().one("SELECT count(*) FROM effect WHERE what = 'pack:p2'") == "1");
}

TEST_CASE("an advisory lock that a step took for its session is free once the step has ended, whatever its end")
{
    for (bool const rejects : {false, true}) {
        CAPTURE(rejects);
        depot d;
        d.pack = [rejects](skald::step_context& ctx, parcel&) -> skald::outcome {
            ctx.tx().exec("SELECT pg_advisory_lock(42)");
            if (rejects) return skald::reject("no room");
            return skald::done();
        };
        d.host();
        d.start(skald::test::send, parcel{"p", 7}, "k");
        d.at("depot").relay_due();
        REQUIRE(d.at("depot").process_one());
        CHECK(d.record("pack") == (rejects ? "rejected|1|0" : "completed|1|0"));
        CHECK(d.db().one("SELECT pg_try_advisory_lock(42)") == "t");
    }
}

TEST_CASE("an advisory lock of a step's session is held until what the step wrote can be seen")
{
    // The trigger runs within COMMIT. There the lock must still be the step's.
    depot d;
    d.db().run("CREATE TABLE held (by_step boolean);"
               "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
               " INSERT INTO held SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 42"
               " AND pid = pg_backend_pid()); RETURN NULL; END $$;"
               "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED"
               " FOR EACH ROW EXECUTE FUNCTION look()");
    d.pack = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "pack");
        ctx.tx().exec("SELECT pg_advisory_lock(42)");
        return skald::done();
    };
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    REQUIRE(d.at("depot").process_one());
    CHECK(d.db().one("SELECT bool_and(by_step) FROM held") == "t");
    CHECK(d.db().one("SELECT pg_try_advisory_lock(42)") == "t");
}

TEST_CASE("a step that prepares a statement of the same name each time is done each time")
{
    depot d;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        ctx.tx().exec("PREPARE mine AS SELECT 1");
        return skald::done();
    };
    d.host();
    for (auto const* const key : {"p1", "p2", "p3"}) d.start(skald::test::send, parcel{key, 7}, key);
    {
        skald::test::running_lanes const one{d.at("depot"), 1, 1};
        CHECK(skald::testing::wait_until([&] {
            d.at("depot").relay_due();
            return d.db().one("SELECT count(*) FROM skald.saga WHERE status <> 'running'") == "3";
        }));
    }
    CHECK(d.db().rows("SELECT status, count(*) FROM skald.saga GROUP BY 1") == "completed|3");
    CHECK(d.db().rows("SELECT DISTINCT attempts FROM skald.idempotency WHERE step = 'pack'") == "1");
}

// Undone in the duplicate's own transaction alone, it would be there again behind its ROLLBACK, and every further one
// would have it to undo.
TEST_CASE("what a step left in its session is gone behind the duplicate that follows it")
{
    shared_session s{"CREATE TEMP TABLE mine (n int)"};
    s.start(skald::test::send, parcel{"p1", 1}, "p1");
    s.at("depot").relay_due();
    auto const taken = s.at("depot").take_all();
    REQUIRE(taken.size() == 1);
    auto const there = [&] { return s.db().one("SELECT count(*) FROM pg_class WHERE relname = 'mine'"); };
    s.at("depot").process(taken[0]);
    CHECK(there() == "1");
    auto const before = s.at("depot").round_trips();
    s.at("depot").process(taken[0]);
    CHECK(s.at("depot").round_trips() - before == 2);
    CHECK(there() == "0");
    CHECK(s.packed("p1") == "completed|1");
}

TEST_CASE("to leave nothing to the next step costs no round trip")
{
    shared_session s{"SET search_path = elsewhere"};
    for (int n = 0; n < 3; ++n) {
        s.start(skald::test::send, parcel{"q" + std::to_string(n), 1}, "q" + std::to_string(n));
        s.at("depot").relay_due();
        auto const before = s.at("depot").round_trips();
        REQUIRE(s.at("depot").process_one());
        CHECK(s.at("depot").round_trips() - before == 2);
    }
}

TEST_CASE("what a step leaves in its session is told once, by its name and with what to do instead")
{
    depot d;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        ctx.tx().exec("SET search_path = public; SET LOCAL row_security = off; SELECT pg_advisory_lock(42);"
                      "SELECT pg_advisory_lock(4, 2); SELECT pg_advisory_xact_lock(43); CREATE TEMP TABLE mine (n int);"
                      "CREATE TEMP TABLE gone (n int) ON COMMIT DROP; DECLARE hers CURSOR WITH HOLD FOR SELECT 1;"
                      "DECLARE his CURSOR FOR SELECT 1; LISTEN mine; PREPARE mine_" +
                      p.id + " AS SELECT 1");
        return skald::done();
    };
    d.host();
    for (auto const* const key : {"p1", "p2", "p3"}) d.start(skald::test::send, parcel{key, 7}, key);
    d.run();
    auto const told = d.at("depot").log().lines("step.left_in_session");
    REQUIRE(told.size() == 1);
    CHECK(told[0].find(" warning ") != std::string::npos);
    CHECK(told[0].find("step=pack ") != std::string::npos);
    CHECK(
        told[0].find("left=\"advisory lock (4, 2) (instead: pg_advisory_xact_lock); "
                     "advisory lock 42 (instead: pg_advisory_xact_lock); channel mine (instead: LISTEN on a connection"
                     " of your own); cursor hers (instead: no WITH HOLD); prepared statement mine_p1 (instead: "
                     "ctx.sql, which prepares what it runs); setting search_path (instead: SET LOCAL); temporary table "
                     "mine (instead: CREATE TEMPORARY TABLE ... ON COMMIT DROP)\"") != std::string::npos);
    INFO(told[0]);
    CHECK(d.at("depot").log().count("step.completed") == 12);
}

TEST_CASE("what an earlier step has prepared is not told of a later one")
{
    depot d;
    d.pack = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.tx().exec("PREPARE mine AS SELECT 1");
        return skald::done();
    };
    d.go();
    auto const told = d.at("depot").log().lines("step.left_in_session");
    REQUIRE(told.size() == 1);
    CHECK(told[0].find("step=pack ") != std::string::npos);
}

TEST_CASE("a step that leaves nothing is not told of")
{
    depot d;
    d.pack = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "pack");
        ctx.tx().exec(
            "SET LOCAL search_path = public; SET LOCAL ROLE NONE; SELECT set_config('app.tenant', '7', true)");
        return skald::done();
    };
    d.weigh = [](skald::step_context&, parcel&) -> skald::outcome { return skald::reject("too heavy"); };
    d.go();
    CHECK(d.effects() == "pack, undo pack");
    CHECK_FALSE(d.at("depot").log().has("step.left_in_session"));
}

TEST_CASE("what fails behind COMMIT, where the session is set right, does not make a COMMIT less of one")
{
    shared_session s{"DEALLOCATE inspect_session",
                     "SELECT count(*) FROM pg_prepared_statements WHERE name = 'inspect_session'"};
    s.pack_next();
    CHECK(s.packed("p1") == "completed|1");
    CHECK_FALSE(s.at("depot").log().has("delivery.not_processed"));
    s.pack_next();
    CHECK(s.met == "1");
    CHECK(s.db().one("SELECT string_agg(what, ', ' ORDER BY n) FROM effect WHERE what LIKE 'pack%'") ==
          "pack:p1, pack:p2");
}

TEST_CASE("a step may work as another role, alone and in a batch, and Skald's own writes are made as ever")
{
    skald::test::busy_depot d;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        ctx.tx().exec("SET LOCAL ROLE NONE");  // deliveries that share a transaction share its settings
        note(ctx, "pack:" + p.id);
        ctx.tx().exec("SET LOCAL ROLE pg_monitor");
        ctx.publish("events", "packed", "{}");
        return skald::done();
    };
    SUBCASE("alone")
    {
        d.start_all(1);
    }
    SUBCASE("in a batch")
    {
        d.start_all(5);
    }
    d.run_all();
    CHECK(d.once_each());
    CHECK(d.db().rows("SELECT DISTINCT status, attempts FROM skald.idempotency WHERE step = 'pack'") == "completed|1");
}

TEST_CASE(
    "a step that leaves a transaction in which nothing can be written counts an attempt each time, and is bounded")
{
    for (std::string const does : {"SET LOCAL transaction_read_only = on", "SET LOCAL SESSION AUTHORIZATION pg_monitor",
                                   "SET SESSION AUTHORIZATION pg_monitor"}) {
        CAPTURE(does);
        skald::test::busy_depot d;
        d.pack = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "pack:" + p.id);
            if (p.weight == 1) ctx.tx().exec(does);
            return skald::done();
        };
        d.start_all(4);
        {
            skald::test::running_lanes const some{d.at("depot"), 2};
            CHECK(skald::testing::wait_until([&] {
                d.at("depot").relay_due();
                return d.sagas() == "compensated 1, completed 3";
            }));
        }
        CHECK(d.db().rows("SELECT DISTINCT status, attempts FROM skald.idempotency WHERE step = 'pack' ORDER BY 1") ==
              "completed|1\nrejected|3");
        auto const said = d.db().one("SELECT error FROM skald.idempotency WHERE status = 'rejected'");
        CHECK_MESSAGE((said.find("read-only") != std::string::npos || said.find("permission") != std::string::npos),
                      said);
    }
}
