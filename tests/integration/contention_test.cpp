// Steps whose transactions want the same rows: no deadlock, no attempt, nothing twice, and no step run more often
// than it must.
#include "support/busy_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>

using namespace std::chrono_literals;
using skald::test::busy_depot;
using skald::test::note;
using skald::test::parcel;
using skald::testing::wait_until;
using lanes = skald::test::running_lanes;

namespace {

/// A depot with shelves that all parcels share. `shelf` says which one a parcel's step updates.
struct crowded_depot : busy_depot
{
    explicit crowded_depot(int shelves)
    {
        db().run(
            "CREATE TABLE shelf (id int PRIMARY KEY, n int); INSERT INTO shelf SELECT i, 0 FROM generate_series(0, " +
            std::to_string(shelves - 1) + ") i");
    }

    static void put(skald::step_context& ctx, int shelf) { ctx.sql("UPDATE shelf SET n = n + 1 WHERE id = $1", shelf); }

    /// All of them are packed, by two processes of four lanes.
    void pack_all(int parcels)
    {
        start_all(parcels);
        auto const before = deadlocks();
        {
            lanes const some{at("depot"), 4}, others{at("depot"), 4};
            CHECK(wait_until([&] {
                at("depot").relay_due();
                return packed() == parcels;
            }));
        }
        CHECK(once_each());
        CHECK(db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
        CHECK(db().one("SELECT count(*) FROM skald.parked") == "0");
        CHECK(deadlocks() == before);
    }

    int packed() { return std::stoi(db().one("SELECT count(*) FROM effect WHERE what LIKE 'pack:%'")); }

    std::string deadlocks()
    {
        return db().one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    }
};

}  // namespace

TEST_CASE("two processes that update few shared rows come through without a deadlock or an attempt")
{
    for (int const shelves : {1, 3, 7}) {
        CAPTURE(shelves);
        crowded_depot d{shelves};
        d.pack = [shelves](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "pack:" + p.id);
            crowded_depot::put(ctx, (p.weight * 5) % shelves);
            return skald::done();
        };
        d.pack_all(90);
        CHECK(d.db().one("SELECT sum(n) FROM shelf") == "90");
    }
}

TEST_CASE("a row that another session keeps locked stops those that want it, and nobody else")
{
    crowded_depot d{8};
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        crowded_depot::put(ctx, p.weight % 8);
        return skald::done();
    };
    pqxx::connection c{d.db().url()}, other{d.db().url()};
    pqxx::work holder{c}, holder_for_a_while{other};
    holder.exec("SELECT FROM shelf WHERE id = 3 FOR UPDATE");
    holder_for_a_while.exec("SELECT FROM shelf WHERE id = 5 FOR UPDATE");
    d.start_all(160);
    lanes const some{d.at("depot"), 4};
    auto const relayed = [&](int parcels) {
        return wait_until([&] {
            d.at("depot").relay_due();
            return d.packed() == parcels;
        });
    };
    CHECK(relayed(120));
    CHECK(wait_until([&] {
        return d.db().one("SELECT count(*) FROM skald.contention WHERE reason LIKE 'another session holds a lock%'") ==
               "1";
    }));
    // What is free again is not kept waiting by what is not.
    holder_for_a_while.commit();
    CHECK(relayed(140));
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
    holder.commit();
    CHECK(relayed(160));
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
}

TEST_CASE("a step that updates two shared rows in any order comes to its end, and is charged no attempt for it")
{
    crowded_depot d{5};
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        crowded_depot::put(ctx, p.weight % 5);
        crowded_depot::put(ctx, (p.weight * 3 + 1) % 5);
        return skald::done();
    };
    d.start_all(60);
    {
        lanes const some{d.at("depot"), 4};
        CHECK(wait_until([&] {
            d.at("depot").relay_due();
            return d.packed() == 60;
        }));
    }
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
}

TEST_CASE("a slow step runs each delivery once, in a transaction of its own, though it updates one row at its end")
{
    crowded_depot d{1};
    std::mutex mutex;
    std::map<std::string, int> runs;
    d.pack = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        {
            std::lock_guard const lock{mutex};
            ++runs[p.id];
        }
        ctx.sql("SELECT pg_sleep(0.2)");  // what others are asked for
        note(ctx, "pack:" + p.id);
        crowded_depot::put(ctx, 0);
        return skald::done();
    };
    d.start_all(16);
    {
        lanes const some{d.at("depot"), 4};
        CHECK(wait_until([&] {
            d.at("depot").relay_due();
            return d.packed() == 16;
        }));
    }
    CHECK(runs.size() == 16);
    for (auto const& [id, count] : runs) {
        CAPTURE(id);
        CHECK(count == 1);
    }
    CHECK(d.transactions("pack") == "16");
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
}

TEST_CASE("a row that somebody else holds makes a step wait, and costs no attempt")
{
    crowded_depot d{1};
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        crowded_depot::put(ctx, 0);
        return skald::done();
    };
    d.start_all(12);
    pqxx::connection other{d.db().url()};
    {
        pqxx::work holding{other};
        holding.exec("UPDATE shelf SET n = n");
        lanes const some{d.at("depot"), 2};
        CHECK(wait_until([&] {
            d.at("depot").relay_due();
            return d.db().one("SELECT coalesce(sum(conflicts), 0) >= 2 FROM skald.contention WHERE step = 'pack'") ==
                   "t";
        }));
        CHECK(d.counts() == "");
        holding.abort();
        CHECK(wait_until([&] { return d.packed() == 12; }));
    }
    CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency") == "1");
    CHECK(d.db().one(
              "SELECT last_conflict_at IS NOT NULL AND reason <> '' FROM skald.contention WHERE step = 'pack'") == "t");
}

TEST_CASE("a statement that can never succeed, though it says deadlock, counts as an attempt in the end")
{
    busy_depot d;
    d.db().run("CREATE FUNCTION conflict() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40P01'; END $$");
    d.pack = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.sql("SELECT conflict()");
        return skald::done();
    };
    d.host();
    d.start(skald::test::send, parcel{"p1", 1}, "p1");
    d.at("depot").relay_due();
    auto tasks = d.at("depot").route(d.at("depot").take_all());
    REQUIRE(tasks.size() == 1);
    skald::postgres::postgres_store store{{.url = d.db().url()}};
    auto lane = d.at("depot").executor_on(store);
    int tries = 0;
    for (; !lane.run(tasks).processed(); ++tries) {
        REQUIRE(tries < 1000);
        CHECK(d.db().one("SELECT count(*) FROM skald.idempotency WHERE step = 'pack'") == "0");
        ++tasks[0].tries;
    }
    CHECK(tries == skald::runtime::contended_max);
    CHECK(d.db().one("SELECT attempts FROM skald.idempotency WHERE step = 'pack'") == "1");
}
