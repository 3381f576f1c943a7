// Steps that wait: for a signal or a time, holding nothing.
#include "external/bank.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

using namespace std::chrono_literals;
using namespace skald::test;
using skald::ports::started_kind;
using skald::testing::wait_until;

namespace {

struct approval
{
    std::string by;
    bool yes{};
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(approval, by, yes)
};

class approve final : public skald::wait_step<purchase, approval>
{
    skald::outcome begin(skald::step_context& ctx, purchase&) const override
    {
        note(ctx, "asked");
        return skald::done();
    }
    std::chrono::milliseconds timeout(purchase const&) const override { return 1h; }
    skald::outcome arrived(skald::step_context& ctx, purchase& p, approval const& a) const override
    {
        if (!a.yes) return skald::reject("not approved by " + a.by);
        note(ctx, "approved");
        p.receipt = a.by;
        return skald::done();
    }
    skald::outcome timed_out(skald::step_context& ctx, purchase& p) const override
    {
        if (p.cents > 50) return skald::reject("nobody approved it");
        if (p.cents > 20) return skald::snooze(1h);
        note(ctx, "nobody objected");
        return skald::done();
    }
    void abandon(skald::step_context& ctx, purchase&) const override { note(ctx, "withdrawn"); }
};

class cool_off final : public skald::sleep_step<purchase>
{
    std::chrono::sys_time<std::chrono::milliseconds> until(purchase const& p) const override
    {
        if (p.cents == 7) return std::chrono::sys_time<std::chrono::milliseconds>::max();
        return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()) + 24h;
    }
};

namespace wait_steps {
constexpr skald::pivot<purchase> approve{"approve", "till"};
constexpr skald::retriable<purchase> cool_off{"cool-off", "till"};
}  // namespace wait_steps
constexpr auto ask_first = skald::define("ask-first", skald::test::steps::reserve, wait_steps::approve,
                                         wait_steps::cool_off, skald::test::steps::ship);

class waiting final : public bank_services
{
public:
    waiting()
    {
        at("shop").host(ask_first, skald::test::steps::reserve, reserve{});
        at("till").host(ask_first, wait_steps::approve, approve{});
        at("till").host(ask_first, wait_steps::cool_off, cool_off{});
        at("shop").host(ask_first, skald::test::steps::ship, ship{});
    }

    void run_all()
    {
        do run();
        while (at("till").go_on(started_kind::wait));
    }

    std::string signal(std::string const& body, std::string const& step = "approve")
    {
        return at("till").db.one("SELECT skald.signal('', 'k', '" + step + "', '" + body + "')");
    }
};

constexpr auto yes = R"({"by": "eve", "yes": true})";

}  // namespace

TEST_CASE("a sleep until the end of all clocks does not end at once")
{
    waiting all;
    all.start(ask_first, purchase{"p", 7}, "k");
    all.run_all();
    CHECK(all.signal(yes) == "kept");
    all.run_all();
    CHECK(all.record("cool-off") == "started|1");
    CHECK(all.at("till").db.one("SELECT until > now() + '900 years' FROM skald.started") == "t");
}

TEST_CASE("a saga waits for a signal, holding nothing, and then for a time")
{
    waiting all;
    all.start(ask_first, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.effects("till") == "asked");
    CHECK(all.record("approve") == "started|1");
    CHECK(all.at("till").db.one("SELECT count(*) FROM skald.outbox") == "0");
    CHECK(all.signal(yes) == "kept");
    all.run_all();
    CHECK(all.effects("till") == "asked\napproved");
    CHECK(all.record("cool-off") == "started|1");
    CHECK(all.at("till").db.one("SELECT due_at BETWEEN now() + '23h' AND now() + '25h' FROM skald.started") == "t");
    CHECK(all.effects("shop") == "reserve");
    all.at("till").make_started_due();
    all.run_all();
    CHECK(all.effects("shop") == "reserve\nship eve");
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE("a signal that comes before its step is kept for it")
{
    waiting all;
    CHECK(all.signal(yes) == "kept");
    all.start(ask_first, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.effects("till") == "asked\napproved");
}

TEST_CASE("the same signal again is a duplicate, another is a mismatch, and one that is too late is late")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    SUBCASE("again")
    {
        CHECK(all.signal(yes) == "kept");
        CHECK(all.signal(yes) == "duplicate");
        CHECK(all.signal(R"({"by": "eve", "yes": false})") == "mismatch");
        all.run_all();
        CHECK(all.signal(yes) == "duplicate");
        CHECK(all.signal(R"({"by": "eve", "yes": false})") == "late");
    }
    SUBCASE("late")
    {
        all.at("till").make_started_due();
        all.run_all();
        CHECK(all.effects("till") == "asked\nnobody objected");
        CHECK(all.signal(yes) == "late");
    }
}

TEST_CASE("a signal may be a no: the saga compensates, and what begin wrote is undone")
{
    waiting all;
    all.start(ask_first, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.signal(R"({"by": "eve", "yes": false})") == "kept");
    all.run_all();
    CHECK(all.effects("till") == "asked\nwithdrawn");
    CHECK(all.saga_status("k") == "compensated");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") == "not approved by eve");
}

TEST_CASE("a wait that is over rejects, goes on, or waits again, as the step says")
{
    waiting all;
    SUBCASE("rejects")
    {
        all.start(ask_first, purchase{"p", 100}, "k");
        all.run_all();
        all.at("till").make_started_due();
        all.run_all();
        CHECK(all.saga_status("k") == "compensated");
    }
    SUBCASE("waits again")
    {
        all.start(ask_first, purchase{"p", 30}, "k");
        all.run_all();
        all.at("till").make_started_due();
        all.run_all();
        CHECK(all.record("approve") == "started|1");
        CHECK(all.at("till").db.one("SELECT until > now() + '50 min' FROM skald.started") == "t");
        CHECK(all.signal(yes) == "kept");
        all.run_all();
        CHECK(all.effects("till") == "asked\napproved");
    }
}

TEST_CASE("a command reaches a saga that waits, and is not taken for the end of the wait")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    auto const give = [&](std::string const& what) {
        all.at("shop").db.run("SELECT skald.request_control('" + what + "', '', 'k')");
        all.run_all();
    };
    give("pause");
    give("resume");
    CHECK(all.effects("till") == "asked");
    CHECK(all.record("approve") == "started|1");
    give("cancel");
    CHECK(all.effects("till") == "asked\nwithdrawn");
    CHECK(all.saga_status("k") == "compensated");
}

TEST_CASE("a signal that does not fit its type is not forgotten, and its step says what is wrong")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    CHECK(all.signal(R"({"by": 7})") == "kept");
    all.run_all();
    CHECK(all.record("approve") == "started|1");
    CHECK(all.at("till").db.one("SELECT error FROM skald.started").find("does not fit") != std::string::npos);
    for (int n = 0; n < 2; ++n) {
        all.at("till").db.run("UPDATE skald.started SET due_at = clock_timestamp()");
        all.run_all();
    }
    // More than once each where this takes longer than its wait.
    auto const lines = all.at("till").log().lines("step.not_settled");
    REQUIRE(lines.size() >= 3);
    CHECK(all.at("till").db.one("SELECT tries FROM skald.started") == std::to_string(lines.size()));
    CHECK(lines[0].starts_with("now error "));
    CHECK(std::all_of(lines.begin() + 1, lines.end(), [](auto const& line) { return line.starts_with("now debug "); }));
    all.at("till").make_started_due();  // and its time over
    all.run_all();
    CHECK(all.effects("till") == "asked\nnobody objected");
    CHECK(all.record("approve").starts_with("completed"));
}

TEST_CASE("what is not due costs nothing, however much it is")
{
    waiting all;
    auto const& db = all.at("till").db;
    db.run("TRUNCATE skald.started");  // the index has entries of rows that earlier tests have deleted
    db.run("INSERT INTO skald.started (scope, key, step, kind, due_at, until, lease, message_id, type, content_type, "
           "body, headers)"
           " SELECT '', 'k' || n, 'approve', 'wait', now() + '1 h', now() + '1 h', '15 s', 'm', 't', "
           "'application/json', '', '{}'"
           "   FROM generate_series(1, 20000) n");
    db.run("ANALYZE skald.started");
    // Entries of the index that were read, of 20,000. The planner may look at the two ends of an index itself.
    auto const read = db.one("SELECT count(*) FROM skald.take_started('me', 'wait', '', 64);"
                             "SELECT pg_stat_get_xact_tuples_returned('skald.started_due'::regclass)");
    CHECK(std::stoi(read) <= 2);
}

TEST_CASE("an owner has a wait for half a second at most, so that a timer is not late by a lease when it dies")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    CHECK(all.signal(R"({"by": "eve", "yes": true})") == "kept");
    auto const& db = all.at("till").db;
    auto const left =
        "SELECT lease > interval '10 s' AND due_at <= clock_timestamp() + interval '0.5 s' FROM skald.started";
    CHECK(db.one("SELECT count(*) FROM skald.take_started('me', 'wait', '', 1)") == "1");
    CHECK(db.one(left) == "t");
    CHECK(db.one("SELECT is_extended FROM skald.renew_started('{\"\"}', '{k}', '{approve}', '{1}', '{\"\"}')") == "t");
    CHECK(db.one(left) == "t");
}

TEST_CASE("ends of one step's waits share transactions, and one that rejects takes nothing from the others")
{
    waiting all;
    auto const& db = all.at("till").db;
    auto const run_twenty = [&](std::string const& prefix, std::string const& who_refuses) {
        for (int n = 0; n < 20; ++n) all.start(ask_first, purchase{"p", 10}, prefix + std::to_string(n));
        all.run();
        for (int n = 0; n < 20; ++n) {
            auto const key = prefix + std::to_string(n);
            auto const* const body = key == who_refuses ? R"({"by": "eve", "yes": false})" : yes;
            REQUIRE(db.one("SELECT skald.signal('', '" + key + "', 'approve', '" + body + "')") == "kept");
        }
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return db.one("SELECT count(*) FROM skald.started WHERE step = 'approve'") == "0"; }));
    };
    auto const noted = [&](std::string const& prefix, std::string const& what, std::string const& counted) {
        return db.one("SELECT count(" + counted + ") FROM effect WHERE what = '" + what + "' AND key LIKE '" + prefix +
                      "%'");
    };
    run_twenty("a", "");
    CHECK(noted("a", "approved", "*") == "20");
    CHECK(std::stoi(noted("a", "approved", "DISTINCT xmin::text")) < 20);
    run_twenty("b", "b7");
    CHECK(noted("b", "approved", "*") == "19");
    CHECK(noted("b", "withdrawn", "*") == "1");
    CHECK(db.one("SELECT string_agg(status::text, ' ') FROM skald.idempotency WHERE (key, step) = ('b7', 'approve')") ==
          "rejected");
}

TEST_CASE("a signal may be null, on its way as a message too")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    CHECK(all.at("shop").db.one("SELECT skald.send_signal('', 'k', 'approve', 'null')") == "sent");
    all.run_all();
    CHECK(all.parked() == "");
    CHECK(all.at("till").db.one("SELECT body FROM skald.signal") == "null");
    CHECK_THROWS(all.at("shop").db.one("SELECT skald.send_signal('', 'k', 'approve', NULL)"));
}

TEST_CASE("a signal that comes as a message, and a command, wake what waits")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    auto& till = all.at("till");
    skald::postgres::postgres_store store{{.url = till.db.url()}};
    auto lane = till.executor_on(store);
    int woken = 0;
    lane.on_started([&woken] { ++woken; });
    auto const deliver = [&](std::string const& statement) {
        all.at("shop").db.run(statement);
        all.at("shop").relay_due();
        for (auto const& one : till.take_all()) till.process_on(lane, one);
    };
    deliver("SELECT skald.send_signal('', 'k', 'approve', 'null')");
    CHECK(woken == 1);
    deliver("SELECT skald.request_control('cancel', '', 'k', 'changed my mind')");
    CHECK(woken == 2);
}

TEST_CASE("the home compares signals for another service's step, and sends the same one again")
{
    waiting all;
    all.start(ask_first, purchase{"p", 10}, "k");
    auto const send = [&](std::string const& body) {
        return all.at("shop").db.one("SELECT skald.send_signal('', 'k', 'approve', '" + body + "')");
    };
    CHECK(send(R"({"by": "eve", "ok": true})") == "sent");
    CHECK(send(R"({"by": "eve", "ok": false})") == "mismatch");
    all.at("shop").db.run("DELETE FROM skald.outbox WHERE type = 'skald.signal'");
    CHECK(send(R"({"ok": true, "by": "eve"})") == "duplicate");
    CHECK(all.at("shop").db.one("SELECT count(*) FROM skald.outbox WHERE type = 'skald.signal'") == "1");
    all.run_all();
    CHECK(send(R"({"by": "eve", "ok": true})") == "duplicate");
}

TEST_CASE("a signal for a step that never waits is refused where that is known, and parked where it arrives")
{
    waiting all;
    for (auto const* const name : {"shop", "till"})
        all.at(name).db.run(name == std::string{"shop"} ? "SELECT skald.record_hosted('{reserve,ship}', '{f,f}')"
                                                        : "SELECT skald.record_hosted('{approve,cool-off}', '{t,f}')");
    all.start(ask_first, purchase{"p", 10}, "k");
    all.run_all();
    auto const at_home = [&](std::string const& step) {
        return all.at("shop").db.one("SELECT skald.send_signal('', 'k', '" + step + "', '{}')");
    };
    CHECK(at_home("ship") == "no wait");
    CHECK(all.signal("{}", "cool-off") == "no wait");
    CHECK(at_home("cool-off") == "sent");  // the home can't know
    all.run_all();
    CHECK(all.parked() == "till|malformed|1");
    CHECK(all.at("till").db.one("SELECT error FROM skald.parked").find("never waits for one") != std::string::npos);
    CHECK(all.at("till").db.one("SELECT count(*) FROM skald.signal") == "0");
    CHECK(all.signal(yes) == "kept");
    all.run_all();
    CHECK(all.record("approve").starts_with("completed"));
}

TEST_CASE("a step that once took signals is not refused one by a process of another version that knows of none")
{
    waiting all;
    auto const& db = all.at("till").db;
    db.run("SELECT skald.record_hosted('{approve}', '{f}')");
    CHECK(all.signal(yes) == "no wait");
    db.run("SELECT skald.record_hosted('{approve,approve}', '{f,t}')");
    db.run("SELECT skald.record_hosted('{approve}', '{f}')");
    CHECK(all.signal(yes) == "kept");
}
