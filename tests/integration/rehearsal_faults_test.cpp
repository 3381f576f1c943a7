// Rehearsals of steps that fail, wait, or try to commit.
#include "support/rehearsed_depot.hpp"
#include "support/server_setting.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>

using nlohmann::json;
using skald::test::note;
using skald::test::says;
using skald::test::table_of;
using skald::test::waiting_depot;

TEST_CASE("a rehearsal of a retry that waits in the outbox is its next attempt")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        note(ctx, "attempt " + std::to_string(ctx.attempt()));
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    CHECK(says(report["from"], "of the outbox"));
    CHECK(table_of(report, "public.effect")["rows"][0]["after"]["what"] == "attempt 2");
}

TEST_CASE("a rehearsal of a step that throws says what it threw, and that it would be tried again")
{
    waiting_depot d;
    double ran_ms = 0;
    auto const report = d.rehearsed([&](auto& ctx, auto&) -> skald::outcome {
        auto const from = std::chrono::steady_clock::now();
        note(ctx, "half");
        ran_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
        throw std::runtime_error{"still away"};
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "failed");
    CHECK(report["error"] == "still away");
    CHECK(report["step_ms"] >= ran_ms);
    CHECK(report["took_ms"] >= report["step_ms"]);
    CHECK_FALSE(report.contains("saga"));
    CHECK(table_of(report, "public.effect").is_null());
}

TEST_CASE("a rehearsed step may hand data to the same service that no message holds")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto&, auto& p) {
        p.id.assign(2 * 1024 * 1024, 'n');
        return skald::done();
    });
    CHECK(report["ends"] == "done");
    CHECK(d.db().one("SELECT count(*) FROM skald.body") == "0");
}

TEST_CASE("a step that runs COMMIT commits nothing in a rehearsal")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        note(ctx, "kept");
        ctx.tx().exec("COMMIT");
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "parked");
    CHECK(says(report, "COMMIT"));
    CHECK(d.db().one("SELECT count(*) FROM effect WHERE what = 'kept'") == "0");
}

TEST_CASE("a step that settles its constraints first and runs COMMIT then commits nothing in a rehearsal")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        note(ctx, "kept");
        ctx.tx().exec("SET CONSTRAINTS ALL IMMEDIATE");
        ctx.tx().exec("COMMIT");
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(report["ends"] != "done");
    CHECK(d.db().one("SELECT count(*) FROM effect WHERE what = 'kept'") == "0");
}

TEST_CASE("a rehearsal waits briefly for a lock, and says which session holds it")
{
    waiting_depot d;
    pqxx::connection other{d.db().url()};
    pqxx::work holding{other};
    holding.exec("LOCK TABLE effect");
    d.compares_rows = false;  // reading them would wait for the same lock
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        note(ctx, "waits");
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "locked");
    REQUIRE(report["waited_for"].size() == 1);
    CHECK(report["waited_for"][0]["pid"] == other.backendpid());
}

TEST_CASE("a rehearsal of a step that another transaction has at this moment says in flight")
{
    waiting_depot d;
    pqxx::connection other{d.db().url()};
    pqxx::work holding{other};
    holding.exec("SELECT FROM skald.idempotency WHERE step = 'weigh' FOR UPDATE");
    auto const report = d.rehearsed([](auto&, auto&) { return skald::done(); });
    INFO(report.dump(2));
    CHECK(report["ends"] == "in_flight");
    REQUIRE(report["waited_for"].size() == 1);
    CHECK(report["waited_for"][0]["pid"] == other.backendpid());
}

TEST_CASE("a message of a newer version waits in a rehearsal as it would in the service, for as long as that waits")
{
    waiting_depot d;
    d.db().run("UPDATE skald.outbox SET headers = headers || '{\"x-saga-version\": \"2\"}'");
    auto const never = [](auto&, auto&) -> skald::outcome { throw std::logic_error{"it ran"}; };
    CHECK(d.rehearsed(never)["ends"] == "awaits_deploy");
    d.settings.deploy_wait = std::chrono::seconds{0};
    CHECK(d.rehearsed(never)["ends"] == "parked");
}

TEST_CASE("a rehearsal that meets a duplicate commits nothing, and so waits for no standby")
{
    waiting_depot d;
    d.db().run("UPDATE skald.idempotency SET attempts = 7 WHERE step = 'weigh'");
    skald::test::absent_standby const away;
    d.settings.commit_timeout = d.settings.statement_timeout = std::chrono::seconds{1};
    auto const report = d.rehearsed([](auto&, auto&) { return skald::done(); });
    INFO(report.dump(2));
    CHECK(report["ends"] == "duplicate");
}

TEST_CASE("a rehearsal without its database ends in a report that says so")
{
    waiting_depot d;
    auto url = d.db().url();
    d.url = url.replace(url.rfind('/'), std::string::npos, "/no_such_database");
    auto const report = d.rehearsed("k:weigh");
    INFO(report.dump(2));
    CHECK(report["ends"] == "unavailable");
    CHECK(says(report, "no_such_database"));
    CHECK(report["tables"].is_null());
    auto const words = skald::rehearsal::in_words(report);
    INFO(words);
    CHECK(words.starts_with("k:weigh, not rehearsed\n"));
    CHECK(words.find("nothing") == std::string::npos);
}
