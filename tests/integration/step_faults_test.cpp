// What happens when a step says no, not yet, breaks, or does what it must not.
#include "support/world.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace std::chrono_literals;

namespace {

struct parcel
{
    std::string id;
    int weight{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id, weight)

namespace steps {
inline constexpr skald::compensatable<parcel> pack{"pack", "depot"};
inline constexpr skald::compensatable<parcel> weigh{"weigh", "depot"};
inline constexpr skald::pivot<parcel> load{"load", "depot"};
inline constexpr skald::retriable<parcel> sign{"sign", "depot"};
}  // namespace steps
inline constexpr auto send = skald::define("send", steps::pack, steps::weigh, steps::load, steps::sign);

void note(skald::step_context& ctx, std::string const& what)
{
    ctx.sql("INSERT INTO effect (what) VALUES ($1)", what);
}

using script = std::function<skald::outcome(skald::step_context&, parcel&)>;
using undo_script = std::function<void(skald::step_context&, parcel&)>;

struct scripted : skald::compensatable_step<parcel>
{
    scripted(std::string n, script s, undo_script u = {}) : name{std::move(n)}, run{std::move(s)}, undo{std::move(u)} {}

    skald::outcome execute(skald::step_context& ctx, parcel& p) const override { return run(ctx, p); }

    void compensate(skald::step_context& ctx, parcel& p) const override
    {
        if (undo) undo(ctx, p);
        note(ctx, "undo " + name);
    }

    std::string name;
    script run;
    undo_script undo;
};

struct scripted_pivot : skald::pivot_step<parcel>
{
    explicit scripted_pivot(script s) : run{std::move(s)} {}
    skald::outcome execute(skald::step_context& ctx, parcel& p) const override { return run(ctx, p); }
    script run;
};

struct scripted_retriable : skald::retriable_step<parcel>
{
    explicit scripted_retriable(script s) : run{std::move(s)} {}

    skald::forward_outcome execute(skald::step_context& ctx, parcel& p) const override
    {
        auto const ended = run(ctx, p);
        if (ended.snoozed()) return *ended.snoozed();
        return skald::done();
    }

    script run;
};

script done(std::string const& what)
{
    return [what](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, what);
        return skald::done();
    };
}

/// One service with all four steps; each may be replaced before the saga starts.
class depot : public skald::test::world
{
public:
    depot() : world{{"depot"}} { db().run("CREATE TABLE effect (n serial, what text)"); }

    skald::test::database const& db() { return at("depot").db; }

    void go(std::string const& key = "k")
    {
        at("depot").host(send, steps::pack, scripted{"pack", pack});
        at("depot").host(send, steps::weigh, scripted{"weigh", weigh, undo_weigh});
        at("depot").host(send, steps::load, scripted_pivot{load});
        at("depot").host(send, steps::sign, scripted_retriable{sign});
        start(send, parcel{"p", 7}, key);
        run();
    }

    std::string effects() { return db().one("SELECT string_agg(what, ', ' ORDER BY n) FROM effect"); }
    std::string record(std::string const& step)
    {
        return db().rows("SELECT status, attempts, snoozes FROM skald.idempotency WHERE step = '" + step + "'");
    }

    script pack = done("pack"), weigh = done("weigh"), load = done("load"), sign = done("sign");
    undo_script undo_weigh;
};

}  // namespace

TEST_CASE("G8: nothing that a rejecting step wrote remains, and it is not tried again")
{
    depot d;
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
    CHECK(d.saga_status("k") == "compensated");
    CHECK(d.db().one("SELECT error FROM skald.idempotency WHERE step = 'load'") == "too heavy");
}

TEST_CASE("a step that throws is tried again, and only the run that succeeds has an effect")
{
    depot d;
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
    CHECK(d.saga_status("k") == "completed");
}

TEST_CASE("every attempt has the same derived key and says its number in the message")
{
    depot d;
    std::string keys;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        keys += ctx.key() + ' ';
        if (ctx.attempt() < 2) throw std::runtime_error{"once"};
        return skald::done();
    };
    d.go();
    CHECK(keys == "k:weigh k:weigh ");
    CHECK(skald::core::find_header(d.last_sent("weigh").headers, "x-attempt") == "2");
}

TEST_CASE("a step that never succeeds is bounded: before the pivot, what was done is undone")
{
    depot d;
    d.load = [](skald::step_context&, parcel&) -> skald::outcome { throw std::runtime_error{"no truck"}; };
    d.go();
    CHECK(d.record("load") == "rejected|3|0");
    CHECK(d.effects() == "pack, weigh, undo weigh, undo pack");
    CHECK(d.saga_status("k") == "compensated");
    CHECK(d.db().one("SELECT reason FROM skald.saga") == "no truck");
}

TEST_CASE("behind the pivot there is no way back: a step that never succeeds is parked, and the saga is stuck")
{
    depot d;
    d.sign = [](skald::step_context&, parcel&) -> skald::outcome { throw std::runtime_error{"no pen"}; };
    d.go();
    CHECK(d.record("sign") == "parked|3|0");
    CHECK(d.effects() == "pack, weigh, load");
    CHECK(d.saga_status("k") == "stuck");
    CHECK(d.parked() == "depot|attempts_exhausted|1");
}

TEST_CASE("a compensation that can't succeed leaves the saga stuck and visible, never in a loop")
{
    depot d;
    d.load = [](skald::step_context&, parcel&) -> skald::outcome { return skald::reject("no"); };
    d.undo_weigh = [](skald::step_context&, parcel&) { throw std::runtime_error{"sealed"}; };
    d.go();
    CHECK(d.record("weigh.compensate") == "parked|3|0");
    CHECK(d.effects() == "pack, weigh");
    CHECK(d.saga_status("k") == "stuck");
}

TEST_CASE("a parked step that is replayed as its next turn goes on, and the saga is no longer stuck")
{
    depot d;
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
    depot d;
    int runs = 0;
    d.weigh = [&](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, "weigh");
        if (++runs <= 5) return skald::snooze(1ms);
        CHECK(ctx.attempt() == 1);
        return skald::done();
    };
    d.go();
    while (d.db().one("SELECT count(*) FROM skald.outbox") != "0") {
        auto const old = d.last_sent("weigh");
        d.transport().inject(old);
        d.at("depot").make_due();
        d.run();
    }
    CHECK(runs == 6);
    CHECK(d.record("weigh") == "completed|1|5");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

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
    CHECK(d.db().one("SELECT error FROM skald.idempotency WHERE step = 'weigh'").find("SAVEPOINT") != std::string::npos);
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
            CHECK(met.kind == skald::ports::fault_kind::retry_at_once);
        }
    }
    d.run();
    CHECK(d.record("weigh") == "completed|1|0");
    CHECK(d.effects() == "pack, weigh, load, sign");
}

TEST_CASE("G13: a key that another transaction has comes back later and is not taken for done")
{
    depot d;
    d.weigh = done("weigh");
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

TEST_CASE("what a step changes in the data travels on, and the retry of a step sees it unchanged")
{
    depot d;
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
    depot d;
    d.weigh = [](skald::step_context& ctx, parcel&) -> skald::outcome {
        ctx.publish("depot-audit", "weighed", {{"kg", 7}});
        ctx.publish("depot-audit", "weighed", {{"kg", 8}});
        if (ctx.attempt() == 1) throw std::runtime_error{"once"};
        return skald::done();
    };
    d.transport().declare("depot-audit");
    d.go();
    std::string ids;
    for (auto const& m : d.transport().captured())
        if (m.type == "weighed") ids += m.id + ' ';
    CHECK(ids == "k:weigh.1.weighed k:weigh.2.weighed ");
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
