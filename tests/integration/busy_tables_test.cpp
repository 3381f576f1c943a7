// Somebody holds a lock on a table that Skald writes to, for longer than Skald waits for one (VACUUM FULL, ALTER): that
// is the database's affair. Nothing is parked, nothing is charged to a step, and all goes on when the lock is gone.
#include "support/busy_tables.hpp"
#include "support/depot.hpp"

using namespace skald::test;

TEST_CASE("a step waits for as long as a table of Skald's is locked, and it costs no attempt")
{
    for (std::string const table : {"skald.idempotency", "skald.saga", "skald.outbox", "skald.control"}) {
        depot d;
        d.host();
        d.start(skald::test::send, parcel{"p", 7}, "k");
        d.at("depot").relay_due();
        auto t = only_task(d.at("depot"));
        check_waits_out(d.at("depot"), t, table);
        CHECK(d.record("pack") == "completed|1|0");
        CHECK(d.effects() == "pack");
    }
}

TEST_CASE("a lock that only what a step has put off until COMMIT meets is the step's affair: it counts in the end")
{
    depot d;
    d.db().run("CREATE TABLE audit (n int); CREATE TABLE weighed (n int);"
               "CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS"
               " $$ BEGIN INSERT INTO audit VALUES (1); RETURN NULL; END $$;"
               "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON weighed DEFERRABLE INITIALLY DEFERRED"
               " FOR EACH ROW EXECUTE FUNCTION note_it()");
    d.pack = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("INSERT INTO weighed VALUES (1)");
        return skald::done();
    };
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    auto t = only_task(d.at("depot"));
    hasty_lane lane{d.at("depot")};
    table_lock const held{d.db(), "audit"};
    t.tries = skald::runtime::lock_timeouts_max - many;  // in a row before
    t.rolled_back_by = failure::lock_timeout;
    int tries = 0;
    while (auto const why = lane.try_once(t)) {
        CHECK(*why == failure::lock_timeout);
        REQUIRE(++tries < 2 * many);
    }
    CHECK(tries == many);
    CHECK(d.record("pack") == "retrying|1|0");
    CHECK(d.db().one("SELECT error LIKE '%lock timeout%' FROM skald.idempotency WHERE step = 'pack'") == "t");
}
