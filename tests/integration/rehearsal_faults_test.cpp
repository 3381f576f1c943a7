// Rehearsals of steps that fail, wait, or try to commit.
#include "support/depot.hpp"
#include "support/rehearsed.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using nlohmann::json;
using skald::test::depot;
using skald::test::every_row;
using skald::test::note;
using skald::test::parcel;
using skald::test::rehearse;
using skald::test::table_of;

namespace {

/// A depot whose step `weigh` has failed once and waits for its retry; then the test may replace its script.
class waiting_depot : public depot
{
public:
    waiting_depot()
    {
        at("depot").options_of_steps = {
            .retry = {.attempts_max = 3, .first = std::chrono::hours{1}, .longest = std::chrono::hours{1}}};
        weigh = [](auto&, auto&) -> skald::outcome { throw std::runtime_error{"the scales are away"}; };
        go();
        REQUIRE(db().one("SELECT status FROM skald.idempotency WHERE step = 'weigh'") == "retrying");
    }

    json rehearsed(skald::test::script now, std::string const& key = "k:weigh")
    {
        skald::service of{"depot"};
        of.host(skald::test::send, skald::test::steps::pack, skald::test::scripted{"pack", pack});
        of.host(skald::test::send, skald::test::steps::weigh, skald::test::scripted{"weigh", std::move(now)},
                {.retry = {.attempts_max = 3}});
        auto const before = every_row(db());
        auto report = rehearse(of, db(), key);
        CHECK(every_row(db()) == before);
        return report;
    }
};

bool says(json const& report, std::string const& part)
{
    return report.dump().find(part) != std::string::npos;
}

}  // namespace

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
    auto const report = d.rehearsed([](auto& ctx, auto&) -> skald::outcome {
        note(ctx, "half");
        throw std::runtime_error{"still away"};
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "failed");
    CHECK(report["error"] == "still away");
    CHECK(table_of(report, "public.effect").is_null());
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
    skald::service of{"depot"};
    of.host(skald::test::send, skald::test::steps::pack, skald::test::scripted{"pack", d.pack});
    of.host(skald::test::send, skald::test::steps::weigh, skald::test::scripted{"weigh", [](auto& ctx, auto&) {
                                                                                    note(ctx, "waits");
                                                                                    return skald::done();
                                                                                }});
    auto const report = rehearse(of, d.db(), "k:weigh");
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

TEST_CASE("a rehearsal lists the rows that are deleted, and not those that are only locked")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY, what text); "
               "INSERT INTO shelf SELECT n, 'thing' FROM generate_series(1, 50) n");
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.sql("SELECT FROM shelf WHERE place = 7 FOR UPDATE");
        ctx.sql("DELETE FROM shelf WHERE place = 9");
        ctx.tx().exec("SAVEPOINT a");
        ctx.sql("UPDATE shelf SET what = 'other' WHERE place = 11");
        ctx.tx().exec("RELEASE SAVEPOINT a");
        return skald::done();
    });
    auto const shelf = table_of(report, "public.shelf");
    INFO(report.dump(2));
    CHECK(shelf["rows"] == json::parse(R"([{"op": "update", "before": {"place": 11, "what": "thing"},
                                                            "after": {"place": 11, "what": "other"}},
                                           {"op": "delete", "before": {"place": 9, "what": "thing"}}])"));
}
