// Many deliveries in one transaction, where all goes well or one of them says no: what each does
// is what it would do alone.
#include "support/busy_depot.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace std::chrono_literals;
using skald::test::busy_depot;
using skald::test::note;
using skald::test::parcel;

TEST_CASE("what has arrived runs in one transaction, and every saga goes on")
{
    busy_depot d;
    d.start_all(20);
    CHECK(d.step() == 20);
    CHECK(d.counts() == "pack 20");
    CHECK(d.transactions("pack") == "1");
    d.run_all();
    CHECK(d.counts() == "load 20, pack 20, sign 20, weigh 20");
    CHECK(d.once_each());
    CHECK(d.sagas() == "completed 20");
    CHECK(d.transactions("sign") == "1");
    CHECK(d.db().one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("a batch costs the framework two round trips, whatever its size")
{
    busy_depot d;
    d.pack = [](skald::step_context&, parcel&) -> skald::outcome { return skald::done(); };
    d.start_all(20);
    d.at("depot").relay_due();
    auto const before = d.at("depot").round_trips();
    CHECK(d.at("depot").process_all(20) == 20);
    CHECK(d.at("depot").round_trips() - before == 2);
}

TEST_CASE("no more of a step than it wants share a transaction, and none where it wants to be alone")
{
    for (auto const& [max, transactions] :
         {std::pair{std::size_t{1}, "7"}, {std::size_t{3}, "3"}, {std::size_t{64}, "1"}}) {
        CAPTURE(max);
        busy_depot d;
        d.at("depot").options_of_steps.batch = max;
        d.start_all(7);
        CHECK(d.step() == 7);
        CHECK(d.counts() == "pack 7");
        CHECK(d.transactions("pack") == transactions);
    }
}

TEST_CASE("one that rejects compensates alone: its neighbours are done, and nothing of it remains")
{
    busy_depot d;
    d.weigh = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "weigh:" + p.id);
        if (p.id == "p5") return skald::reject("too heavy");
        return skald::done();
    };
    d.start_all(9);
    d.run_all();
    CHECK(d.counts() == "load 8, pack 9, sign 8, undo pack 1, weigh 8");
    CHECK(d.once_each());
    CHECK(d.sagas() == "compensated 1, completed 8");
    CHECK(d.db().one("SELECT reason FROM skald.saga WHERE key = 'p5'") == "too heavy");
    // In turn, and still in one transaction.
    CHECK(d.transactions("weigh") == "1");
}

TEST_CASE("one that throws, or whose SQL fails, is tried again alone, and counts its attempts")
{
    for (bool const in_sql : {false, true}) {
        CAPTURE(in_sql);
        busy_depot d;
        std::atomic<int> failures{2};
        d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
            note(ctx, "weigh:" + p.id);
            if (p.id == "p2" && ctx.attempt() < 3) {
                --failures;
                if (in_sql) ctx.sql("SELECT 1 / (SELECT 0)");
                throw std::runtime_error{"the scales are out of order"};
            }
            return skald::done();
        };
        d.start_all(6);
        d.run_all();
        CHECK(d.counts() == "load 6, pack 6, sign 6, weigh 6");
        CHECK(d.once_each());
        CHECK(d.sagas() == "completed 6");
        CHECK(d.db().one("SELECT attempts FROM skald.idempotency WHERE key = 'p2' AND step = 'weigh'") == "3");
        CHECK(d.db().one("SELECT max(attempts) FROM skald.idempotency WHERE key <> 'p2'") == "1");
    }
}

TEST_CASE("one that snoozes comes later, and costs its neighbours nothing")
{
    busy_depot d;
    std::atomic<bool> is_open{false};
    d.load = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "load:" + p.id);
        if (p.id == "p3" && !is_open.exchange(true)) return skald::snooze(1h);
        return skald::done();
    };
    d.start_all(4);
    d.run_all();
    CHECK(d.counts() == "load 4, pack 4, sign 4, weigh 4");
    CHECK(d.once_each());
    CHECK(d.sagas() == "completed 4");
}

TEST_CASE("a message that can't be read by its step is parked, and the others are done")
{
    busy_depot d;
    d.start_all(5);
    d.at("depot").relay_due();
    auto broken = d.last_sent("pack");
    d.at("depot").process_all();
    auto const key = skald::core::find_header(broken.headers, "x-idempotency-key").value();
    CHECK(d.counts() == "pack 5");
    broken.type = "weigh";
    broken.body = "{\"id\": 7}";
    for (auto& [name, value] : broken.headers) {
        if (name == "x-idempotency-key") value = std::string{key.substr(0, key.find(':'))} + ":weigh";
        if (name == "x-saga-itinerary") value = "1 2>" + value.substr(value.find("1>") == 0 ? 2 : value.find(' ') + 3);
    }
    broken.id = broken.headers.front().second;
    d.at("depot").relay_due();
    std::vector<skald::ports::delivery> all{skald::test::delivery_of(broken)};
    CHECK(d.at("depot").process_all_with(std::move(all)) == 6);
    CHECK(d.counts() == "pack 5, weigh 5");
    CHECK(d.once_each());
    CHECK(d.db().one("SELECT count(*) FROM skald.parked") == "1");
}

TEST_CASE("duplicates in a batch and of an earlier one do nothing")
{
    busy_depot d;
    d.start_all(3);
    d.at("depot").relay_due();
    auto const again = skald::test::delivery_of(d.last_sent("pack"));
    CHECK(d.at("depot").process_all_with({again, again}) == 5);
    CHECK(d.counts() == "pack 3");
    CHECK(d.at("depot").process_all_with({again, again}) == 2);
    d.run_all();
    CHECK(d.counts() == "load 3, pack 3, sign 3, weigh 3");
    CHECK(d.once_each());
    CHECK(d.sagas() == "completed 3");
}

TEST_CASE("orders hold for the saga that they are given for, in the middle of a batch")
{
    busy_depot d;
    d.start_all(6);
    d.step();
    d.db().run("SELECT skald.request_control('cancel', '', 'p2', 'changed my mind', 'ann')");
    d.db().run("SELECT skald.request_control('pause', '', 'p4', NULL, 'ann')");
    d.step();
    CHECK(d.counts() == "pack 6, weigh 4");
    d.db().run("SELECT skald.request_control('resume', '', 'p4', NULL, 'ann')");
    d.run_all();
    CHECK(d.counts() == "load 5, pack 6, sign 5, undo pack 1, weigh 5");
    CHECK(d.once_each());
    CHECK(d.sagas() == "compensated 1, completed 5");
}

TEST_CASE("another body under a key that was used is parked, and its neighbours are done")
{
    busy_depot d;
    d.start_all(4);
    d.at("depot").relay_due();
    auto other = d.last_sent("pack");
    d.at("depot").process_all();
    other.body = R"({"id":"else","weight":1})";
    d.at("depot").relay_due();
    CHECK(d.at("depot").process_all_with({skald::test::delivery_of(other)}) == 5);
    CHECK(d.counts() == "pack 4, weigh 4");
    CHECK(d.parked() == "depot|mismatch|1");
}

TEST_CASE("a key that another session has is put back, and its neighbours do not wait for it")
{
    busy_depot d;
    d.start_all(4);
    d.at("depot").relay_due();
    pqxx::connection c{d.db().url()};
    pqxx::work holding{c};
    holding.exec("SELECT skald.claim(ARRAY[''], ARRAY['p2'], ARRAY['pack'], ARRAY[sha256('x')])");
    CHECK(d.at("depot").process_all() == 4);
    CHECK(d.counts() == "pack 3");
    holding.abort();
    d.run_all();
    CHECK(d.counts() == "load 4, pack 4, sign 4, weigh 4");
    CHECK(d.sagas() == "completed 4");
}

TEST_CASE("compensations run together too")
{
    busy_depot d;
    d.load = [](skald::step_context&, parcel&) -> skald::outcome { return skald::reject("the van is full"); };
    d.start_all(8);
    d.run_all();
    CHECK(d.counts() == "pack 8, undo pack 8, undo weigh 8, weigh 8");
    CHECK(d.sagas() == "compensated 8");
    CHECK(d.transactions("undo pack") == "1");
}

TEST_CASE("a step that often says no is not run twice for it")
{
    busy_depot d;
    int runs = 0;
    d.pack = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        ++runs;
        note(ctx, "pack:" + p.id);
        if (p.weight % 2 == 0) return skald::reject("no room");
        return skald::done();
    };
    d.start_all(60);
    d.at("depot").relay_due();
    CHECK(d.at("depot").process_all(10) == 10);
    CHECK(runs > 10);
    runs = 0;
    CHECK(d.at("depot").process_all(50) == 50);
    CHECK(runs == 50);
    CHECK(d.counts() == "pack 30");
}

TEST_CASE("what a batch publishes leaves with it, under keys of its own")
{
    busy_depot d;
    d.pack = [](skald::step_context& ctx, parcel& p) -> skald::outcome {
        ctx.publish("elsewhere", "packed", {{"id", p.id}});
        return skald::done();
    };
    d.start_all(3);
    d.step();
    CHECK(d.db().one("SELECT string_agg(idempotency_key, ' ' ORDER BY idempotency_key) FROM skald.outbox"
                     " WHERE destination = 'elsewhere'") == "p1:pack.1.packed p2:pack.1.packed p3:pack.1.packed");
}
