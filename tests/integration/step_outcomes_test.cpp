// What follows when a step says no or not yet, or throws: attempts, the way back, parked, stuck.
#include "support/depot.hpp"
#include "support/kit_depot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace std::chrono_literals;
using skald::test::kit_depot;
using skald::test::note;
using skald::test::parcel;

TEST_CASE("G8: nothing that a rejecting step wrote remains, and it is not tried again")
{
    kit_depot d;
    int runs = 0;
    d.load = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        ++runs;
        note(ctx, "half a load");
        return skald::reject("too heavy");
    };
    d.go();
    CHECK(d.effects() == "pack, weigh, undo weigh, undo pack");
    CHECK(runs == 1);
    CHECK(d.record("load") == "rejected|1|0");
    CHECK(d.kit().saga_is("k", "compensated"));
    CHECK(d.one("SELECT error FROM skald.idempotency WHERE step = 'load'") == "too heavy");
}

TEST_CASE("G7: a step whose SQL fails is recorded with its attempt and its error, and nothing else of it remains")
{
    kit_depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "half a weigh");
        ctx.sql("SELECT 1/0");
        return skald::done();
    };
    d.kit().start(skald::test::send, parcel{"p", 7}, {.key = "k"});
    while (d.record("weigh").empty()) REQUIRE(d.kit().deliver_next());
    CHECK(d.record("weigh") == "retrying|1|0");
    CHECK(d.one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("division by zero") !=
          std::string::npos);
    CHECK(d.effects() == "pack");
}

TEST_CASE("a step that throws is tried again, and only the run that succeeds has an effect")
{
    kit_depot d;
    std::string attempts;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        attempts += std::to_string(ctx.attempt());
        if (ctx.attempt() < 3) throw std::runtime_error{"the scales are broken"};
        return skald::done();
    };
    d.go();
    CHECK(attempts == "123");
    CHECK(d.effects() == "pack, weigh, load, sign");
    CHECK(d.record("weigh") == "completed|3|0");
    CHECK(d.kit().saga_is("k", "completed"));
}

TEST_CASE("the home is told of each attempt that failed, with why, before the step is tried again")
{
    skald::test::stepped_services w{{"office", "depot"}};
    auto const broken = [](skald::step_context&, parcel&) -> skald::outcome {
        throw std::runtime_error{"the scales are broken"};
    };
    w.at("depot").host(skald::test::send, skald::test::steps::pack, skald::test::scripted{"pack", broken});
    w.start(skald::test::send, parcel{"p", 7}, "k");
    w.at("office").relay_due();
    for (auto const* known : {"1", "2"}) {
        REQUIRE(w.at("depot").process_one());
        w.at("depot").relay_due();
        REQUIRE(w.at("office").process_one());
        CHECK(w.at("office").db.rows("SELECT step, service, status, attempts, error FROM skald.progress") ==
              std::string{"pack|depot|retrying|"} + known + "|the scales are broken");
    }
    CHECK(w.saga_status("k") == "running");
}

TEST_CASE("the wait for the next attempt is drawn from a span that doubles with each, up to the policy's longest")
{
    static constexpr skald::compensatable<parcel> wrap{"wrap", "depot"};
    static constexpr auto wrapping = skald::define("wrapping", wrap);
    auto const fails = [](skald::step_context&, parcel&) -> skald::outcome { throw std::runtime_error{"no box"}; };
    skald::service depot{"depot"};
    depot.host(wrapping, wrap, skald::test::scripted{"wrap", fails}, {.retry = {40, 1s, 1000s}});
    skald::testing::harness kit;
    kit.add(std::move(depot));
    kit.start(wrapping, parcel{"p", 7});
    double longest_of_first_two = 0, longest = 0;
    for (int attempt = 1; attempt < 40; ++attempt) {
        REQUIRE(kit.deliver_next());
        auto const wait = std::stod(kit.ask("depot", "SELECT extract(epoch FROM due_at - created_at) FROM "
                                                     "skald.outbox")
                                        .front());
        if (attempt <= 2) longest_of_first_two = std::max(longest_of_first_two, wait);
        longest = std::max(longest, wait);
        kit.advance(1000s);
    }
    CHECK(longest_of_first_two <= 2.0);
    CHECK_MESSAGE(longest > 100.0, "thirty draws from up to 1,000 s");
    CHECK(longest <= 1000.0);
}

TEST_CASE("every attempt has the same derived key and says its number in the message")
{
    kit_depot d;
    std::string keys;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        keys += ctx.key() + ' ';
        if (ctx.attempt() < 2) throw std::runtime_error{"once"};
        return skald::done();
    };
    d.go();
    CHECK(keys == "k:weigh k:weigh ");
    CHECK(d.kit().was_sent("weigh", 2));
    for (auto const& m : d.kit().sent())
        if (m.name == "weigh#2") CHECK(m.attempt == 2);
}

TEST_CASE("a step that never succeeds is bounded: before the pivot, what was done is undone")
{
    kit_depot d;
    d.load = [](skald::step_context&, parcel&) -> skald::outcome { throw std::runtime_error{"no truck"}; };
    d.go();
    CHECK(d.record("load") == "rejected|3|0");
    CHECK(d.effects() == "pack, weigh, undo weigh, undo pack");
    CHECK(d.kit().saga_is("k", "compensated"));
    CHECK(d.one("SELECT reason FROM skald.saga") == "failed its last attempt: no truck");
}

TEST_CASE("behind the pivot there is no way back: a step that never succeeds is parked, and the saga is stuck")
{
    kit_depot d;
    d.sign = [](skald::step_context&, parcel&) -> skald::outcome { throw std::runtime_error{"no pen"}; };
    d.go();
    CHECK(d.record("sign") == "parked|3|0");
    CHECK(d.effects() == "pack, weigh, load");
    CHECK(d.kit().saga_is("k", "stuck"));
    CHECK(d.parked() == "attempts_exhausted");
}

TEST_CASE("S3: a compensation that can't succeed leaves the saga stuck and visible, never in a loop")
{
    kit_depot d;
    d.load = [](skald::step_context&, parcel&) -> skald::outcome { return skald::reject("no"); };
    d.undo_weigh = [](skald::step_context&, parcel&) { throw std::runtime_error{"sealed"}; };
    d.go();
    CHECK(d.record("weigh.compensate") == "parked|3|0");
    CHECK(d.effects() == "pack, weigh");
    CHECK(d.kit().saga_is("k", "stuck"));
}

TEST_CASE("a parked step that is replayed as its next turn goes on, and the saga is no longer stuck")
{
    skald::test::depot d;
    bool broken = true;
    d.sign = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        if (broken) throw std::runtime_error{"no pen"};
        note(ctx, "sign");
        return skald::done();
    };
    d.go();
    REQUIRE(d.saga_status("k") == "stuck");
    broken = false;
    auto again = d.last_sent("sign");
    for (auto& [name, value] : again.headers)
        if (name == "x-attempt") value = "4";
    d.transport().inject(again);
    d.run();
    CHECK(d.record("sign") == "completed|4|0");
    CHECK(d.saga_status("k") == "completed");
    CHECK(d.db().one("SELECT reason FROM skald.saga").empty());
}

TEST_CASE("a snoozed step leaves nothing, costs no attempt, and its old message is a duplicate")
{
    kit_depot d;
    int runs = 0;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        if (++runs <= 5) return skald::snooze(1ms);
        CHECK(ctx.attempt() == 1);
        return skald::done();
    };
    d.go();
    while (d.kit().saga_is("k", "running")) {
        d.kit().replay(d.kit().sent().back());
        d.kit().advance(1ms);
        d.kit().deliver_all();
    }
    CHECK(runs == 6);
    CHECK(d.record("weigh") == "completed|1|5");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("what a step changes in the data travels on, and the retry of a step sees it unchanged")
{
    kit_depot d;
    std::string seen;
    d.pack = [](skald::step_context&, parcel& p) -> skald::outcome {
        p.weight = 8;
        return skald::done();
    };
    d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        seen += std::to_string(p.weight) + ' ';
        p.weight = 100;
        if (ctx.attempt() == 1) throw std::runtime_error{"once"};
        return skald::done();
    };
    d.load = [&](skald::step_context&, parcel& p) -> skald::outcome {
        seen += std::to_string(p.weight);
        return skald::done();
    };
    d.go();
    CHECK(seen == "8 8 100");
}

TEST_CASE("published messages leave with the commit, under keys derived from the step's")
{
    kit_depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.publish("depot-audit", "weighed", {{"kg", 7}});
        ctx.publish("depot-audit", "weighed", {{"kg", 8}});
        if (ctx.attempt() == 1) throw std::runtime_error{"once"};
        return skald::done();
    };
    d.go();
    std::string ids;
    for (auto const& m : d.kit().sent())
        if (m.type == "weighed") ids += m.id + ' ';
    CHECK(ids == "k:weigh.1.weighed k:weigh.2.weighed ");
}

TEST_CASE("a statement that could not be prepared is prepared when it can be")
{
    kit_depot d;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        if (ctx.attempt() == 2) d.one("CREATE TABLE came_late (n int)");
        ctx.sql("INSERT INTO came_late VALUES (1)");
        return skald::done();
    };
    d.go();
    CHECK(d.record("weigh") == "completed|2|0");
    CHECK(d.kit().saga_is("k", "completed"));
}

TEST_CASE("a published message can't have a type that makes its key read as another step's")
{
    kit_depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        CHECK_THROWS_AS(ctx.publish("depot-audit", "x:sign", {}), std::invalid_argument);
        CHECK_THROWS_AS(ctx.publish("depot-audit", "", {}), std::invalid_argument);
        return skald::done();
    };
    d.go();
    CHECK(d.effects() == "pack, load, sign");
}

TEST_CASE("S7: data of any length up to the cap travels whole, and beyond it the saga is refused where it starts")
{
    for (std::size_t const size : {1'000'000, 1'100'000}) {  // in a row of the outbox, and by reference
        CAPTURE(size);
        kit_depot d;
        std::size_t seen = 0;
        d.sign = [&](skald::step_context&, parcel& p) -> skald::outcome {
            seen = p.id.size();
            return skald::done();
        };
        d.go({std::string(size, 'p'), 7});
        CHECK(seen == size);
        CHECK(d.kit().saga_is("k", "completed"));
    }
    kit_depot d;
    parcel const too_long{std::string(std::size_t{64} * 1024 * 1024, 'p'), 7};
    CHECK_THROWS_WITH(d.kit().start(skald::test::send, too_long),
                      doctest::Contains("the data has 67108884 bytes: at most 67108864 can be kept"));
    CHECK(d.one("SELECT count(*) FROM skald.saga") == "0");
}

TEST_CASE("a step may be put off for months, and the longest that there is is bounded instead of breaking its commit")
{
    for (auto const wait : {std::chrono::milliseconds{std::chrono::days{40}}, std::chrono::milliseconds::max()}) {
        kit_depot d;
        d.pack = [wait](skald::step_context&, parcel&) -> skald::outcome { return skald::snooze(wait); };
        d.go();
        CHECK(d.record("pack") == "retrying|0|1");
        CHECK(d.one("SELECT due_at > clock_timestamp() + interval '39 days' FROM skald.outbox") == "t");
        CHECK(d.parked().empty());
    }
}

TEST_CASE(
    "a step that has been put off for two weeks once a second goes on being put off, and is retried when it breaks")
{
    kit_depot d;
    int runs = 0;
    d.pack = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "pack");
        return ++runs < 2 ? skald::outcome{skald::snooze(1h)} : skald::done();
    };
    d.go();
    d.one("UPDATE skald.idempotency SET snoozes = 1209600 WHERE step = 'pack'");
    d.one("UPDATE skald.outbox SET headers = headers || '{\"x-snoozes\": \"1209600\"}'");
    d.kit().run_to_the_end();
    CHECK(d.effects() == "pack, weigh, load, sign");
    CHECK(d.parked().empty());
}
