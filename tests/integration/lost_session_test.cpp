// A step whose session is lost under it: nothing of it remains, it runs again, and what loses it each time is seen.
#include "support/busy_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using skald::test::depot;
using skald::test::note;
using skald::test::parcel;

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
    catch (skald::test::not_processed const& met) {
        CHECK(met.why == skald::runtime::failure::connection_lost);
    }
    CHECK_MESSAGE(d.record("weigh").empty(), "the delivery is not processed, so nobody may ack it");
    d.at("depot").process(skald::test::delivery_of(d.last_sent("weigh")));
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
        skald::test::running_lanes const some{d.at("depot"), 4};
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

// What is counted in memory goes with the process, so it never gets far.
TEST_CASE("a step that loses its connection each time counts where processes end often too, and is not parked")
{
    depot d;
    d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        return skald::done();
    };
    d.host();
    d.start(skald::test::send, parcel{"p", 7}, "k");
    d.at("depot").relay_due();
    auto again = skald::test::delivery_of(d.last_sent("pack"));
    CHECK_THROWS_AS(d.at("depot").process(again), skald::test::not_processed);
    CHECK(d.record("pack").empty());
    again.returns = 40;  // the brokers park it after 50
    d.at("depot").process(again);
    CHECK(d.record("pack") == "retrying|1|0");
}

TEST_CASE("a step whose session the server ends is told so, and when, and where to look")
{
    depot d;
    std::string const said = "the server ends a session that is silent for 30 s in a transaction";
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
        skald::test::running_lanes const some{d.at("depot"), 1};
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
    SUBCASE("it finds out itself")
    {
        asks_again = true;
    }
    SUBCASE("COMMIT finds out, and whether it got through")
    {
        asks_again = false;
    }
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
    auto tasks = d.at("depot").route(d.at("depot").take_all());
    REQUIRE(tasks.size() == 1);
    skald::postgres::postgres_store store{{.url = d.db().url(), .idle_in_transaction_timeout = 200ms}};
    CHECK(d.at("depot").executor_on(store).run(tasks).processed());
    CHECK(runs == 1);
    CHECK(d.effects().empty());
    CHECK(d.record("pack") == "retrying|1|0");
}

TEST_CASE("what the server says when a COMMIT loses its session is in the error, and not what libpqxx makes of it")
{
    depot d;
    d.at("depot").db.run(
        "CREATE TABLE ending (n int);"
        "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';"
        "CREATE CONSTRAINT TRIGGER ending AFTER INSERT ON ending DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION end_session()");
    bool ends{};
    d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        if (ends) ctx.sql("INSERT INTO ending VALUES (1)");
        else ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        return skald::done();
    };
    SUBCASE("in the COMMIT")
    {
        ends = true;
    }
    SUBCASE("in the step") {}
    std::string error;
    try {
        d.go();
    }
    catch (skald::test::not_processed const& met) {
        error = met.what();
    }
    CHECK_MESSAGE(error.find("terminating connection due to administrator command") != std::string::npos, error);
    CHECK_MESSAGE(error.find("client encoding") == std::string::npos, error);
}
