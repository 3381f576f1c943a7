// What `skald conform` makes of what it has seen: a run in which all is well, and the same with one thing that is not.
#include "conform/verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace skald::conform;

namespace {

constexpr auto run = "run";

step_name at(saga const& s, std::string const& step)
{
    return {s.name.first, s.name.second, step};
}

void record(seen& all, told& of, saga const& s, std::string const& step, std::string const& status)
{
    int const faults = s.data["fails_at"] == step ? s.data["fails"].get<int>() : 0;
    all.records[at(s, step)] = {status, 1 + faults, s.data["waits_at"] == step ? 1 : 0};
    of.reports[step] = {"2026-01-31T12:00:00.000000Z", status};
}

void add_saga(seen& all, saga const& s)
{
    auto& of = all.sagas[s.name];
    of.ends = s.ends;
    if (s.ends != "stuck") of.data = s.data_at_the_end();
    for (auto const& step : s.effects) {
        record(all, of, s, step, "completed");
        all.lines[at(s, step)]["inside"] = 1;
        all.cents[at(s, step)] = {s.data["cents"].get<std::int64_t>()};
    }
    if (s.effects.contains("ship")) of.events.insert(s.name.second + ":ship.1.shipped");
    else if (s.effects.contains("charge")) record(all, of, s, "ship", "rejected");
    if (s.trouble) all.struck.insert(s.name);
    if (s.is_sent_changed) all.parked.push_back({"id", "mismatch", "", at(s, "charge")});
    if (s.ends != "stuck") return;
    auto const last = s.effects.contains("ship") ? "pay-out" : "charge.compensate";
    record(all, of, s, last, "parked");
    all.parked.push_back({"id", "attempts_exhausted", "", at(s, last)});
}

struct whole_run
{
    plan planned = make_plan(run, 1, {.sagas = 40});
    std::vector<spoilt_message> spoilt = make_spoilt(run, "payments");
    seen shown;

    whole_run()
    {
        planned.for_each([this](saga const& s) { add_saga(shown, s); });
        for (auto const& one : spoilt) shown.parked.push_back({one.message.id, one.reason, "", {}});
    }

    saga const& find(std::function<bool(saga const&)> const& fits) const
    {
        for (auto const* const all : {&planned.alone, &planned.duplicated, &planned.at_stop})
            if (auto const found = std::ranges::find_if(*all, fits); found != all->end()) return *found;
        FAIL("the plan has no such saga");
        return planned.alone.front();
    }
    saga const& plain() const
    {
        return find([](saga const& s) { return s.ends == "completed" && !s.trouble && !s.waits(); });
    }
    saga const& rejected() const
    {
        return find(
            [](saga const& s) { return s.data["rejects_at"] == "ship" && s.ends == "compensated" && !s.trouble; });
    }

    std::string first_rule() const
    {
        auto const found = judge(planned, spoilt, shown);
        return found.empty() ? "" : found.front().rule;
    }
};

/// The rule that is told first after `change`.
std::string after(std::function<void(whole_run&)> const& change)
{
    whole_run r;
    change(r);
    return r.first_rule();
}

/// Its first delivery is gone, and nothing is recorded of it.
void lose(whole_run& r, saga const& s)
{
    r.shown.sagas.erase(s.name);
    for (auto const& step : s.effects) {
        r.shown.records.erase(at(s, step));
        r.shown.lines.erase(at(s, step));
    }
}

}  // namespace

TEST_CASE("a run in which all is as planned conforms, and a seed decides the plan")
{
    CHECK(whole_run{}.first_rule() == "");
    auto const texts = [](std::uint64_t seed) {
        std::string all;
        for (auto const& s : make_plan(run, seed, {.sagas = 40}).duplicated)
            all += s.what + s.data.dump() + s.name.second;
        return all;
    };
    CHECK(texts(7) == texts(7));
    CHECK(texts(7) != texts(8));
}

TEST_CASE("an effect outside that stays after a rejection is one mistake, and not two")
{
    whole_run r;
    for (auto const* const s : {&r.plain(), &r.rejected()}) r.shown.lines[at(*s, "ship")] = {{"outside", 1}};
    for (auto const& one : judge(r.planned, r.spoilt, r.shown)) CHECK(one.rule == "effect_outside");
}

TEST_CASE("whatever is not as planned is told by its rule")
{
    auto const lines = [](whole_run & r, saga const& s, std::string const& step) -> auto&
    {
        return r.shown.lines[at(s, step)];
    };
    auto const wait = [](saga const& s) { return s.waits() && !s.trouble; };
    CHECK(after([&](whole_run& r) { lines(r, r.plain(), "ship") = {{"outside", 1}}; }) == "effect_outside");
    CHECK(after([&](whole_run& r) { lines(r, r.plain(), "ship")["after ack"] = 1; }) == "ignores_verdict");
    CHECK(after([&](whole_run& r) { lines(r, r.plain(), "ship") = {{"after done", 1}}; }) == "effect_after_done");
    CHECK(after([&](whole_run& r) { lines(r, r.rejected(), "ship")["outside"] = 1; }) == "reject_without_rollback");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.rejected().name].events.insert("id"); }) == "publishes_directly");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.plain().name].events.insert("other"); }) == "publishes_directly");
    CHECK(after([](whole_run& r) {
              r.shown.sagas[r.plain().name].events.insert(r.plain().name.second + ":ship.2.shipped");
          }) == "event_twice");
    CHECK(after([](whole_run& r) { r.shown.sent_early.insert(r.plain().name); }) == "publishes_directly");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.plain().name].data->erase("unknown-1"); }) == "loses_members");
    CHECK(after([](whole_run& r) { (*r.shown.sagas[r.plain().name].data)["cents"] = -1; }) == "loses_members");
    CHECK(after([](whole_run& r) { (*r.shown.sagas[r.plain().name].data)["new"] = 1; }) == "loses_members");
    CHECK(after([&](whole_run& r) {
              auto const& s = r.find(wait);
              r.shown.sagas[s.name].ends.clear();
              r.shown.records.erase(at(s, s.data["waits_at"]));
          }) == "snoozes_by_ack");
    CHECK(after([&](whole_run& r) { r.shown.records[at(r.find(wait), r.find(wait).data["waits_at"])].snoozes = 0; }) ==
          "does_not_wait");
    CHECK(after([&](whole_run& r) { lines(r, r.plain(), "ship")["inside"] = 2; }) == "effect_twice");
    CHECK(after([](whole_run& r) { r.shown.lines.erase(at(r.plain(), "ship")); }) == "effect_lost");
    CHECK(after([](whole_run& r) {
              r.shown.lines.erase(at(r.plain(), "pay-out"));
              r.shown.records.erase(at(r.plain(), "pay-out"));
          }) == "effect_lost");
    CHECK(after([&](whole_run& r) {
              lines(r, r.find([](saga const& s) { return s.is_cancelled; }), "charge")["inside"] = 1;
          }) == "effect_not_due");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.plain().name].events.clear(); }) == "event_lost");
    CHECK(after([](whole_run& r) {
              auto const& s = r.find([](saga const& one) { return one.is_dead_lettered; });
              r.shown.sagas[s.name].ends = "stuck";
              r.shown.parked.push_back({s.name.second + ":charge", "delivery_limit", "", at(s, "charge")});
          }) == "gives_up");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.rejected().name].ends = "completed"; }) == "wrong_end");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.plain().name].ends.clear(); }) == "stands");
    CHECK(after([](whole_run& r) { r.shown.sagas[r.plain().name].reports.erase("charge"); }) == "not_reported");
    CHECK(after([](whole_run& r) { r.shown.parked.pop_back(); }) == "not_parked");
    CHECK(after([](whole_run& r) { r.shown.parked.back().reason = "mismatch"; }) == "not_parked");
    CHECK(after([](whole_run& r) { r.shown.parked.push_back(r.shown.parked.back()); }) == "parked");
    CHECK(after([](whole_run& r) {
              r.shown.parked.push_back({"other", "malformed", "", at(r.plain(), "ship")});
          }) == "parked");
    CHECK(after([](whole_run& r) {
              std::erase_if(r.shown.parked, [](auto const& p) { return p.reason == "mismatch"; });
          }) == "not_parked");
    CHECK(after([](whole_run& r) { r.shown.left = 1; }) == "never_acked");
    CHECK(after([](whole_run& r) { r.shown.ended_by_itself = 1; }) == "ends_by_itself");
    CHECK(after([](whole_run& r) { r.shown.struck.erase(r.shown.struck.begin()); }) == "not_tried");
    CHECK(after([](whole_run& r) { r.shown.not_held.insert(r.planned.at_stop.front().name); }) == "not_tried");
    CHECK(after([](whole_run& r) { r.shown.not_stopped = 1; }) == "ignores_sigterm");
    CHECK(after([](whole_run& r) { r.shown.not_flushed.insert(at(r.plain(), "ship")); }) == "commit_not_durable");
}

TEST_CASE("a step that nothing delivers again is told by what has come to it")
{
    auto const rule_of_lost = [](std::function<bool(saga const&)> const& fits) {
        return after([&](whole_run& r) {
            auto const& s = r.find(fits);
            lose(r, s);
        });
    };
    auto const of_trouble = [](trouble what) {
        return [what](saga const& s) { return s.trouble && s.trouble->what == what && s.trouble->step == "charge"; };
    };
    for (auto const what :
         {trouble::kill_in_step, trouble::kill_lost_commit, trouble::kill_kept_commit, trouble::kill_in_end})
        CHECK(rule_of_lost(of_trouble(what)) == "ack_before_commit");
    for (auto const what : {trouble::cut_in_step, trouble::cut_in_commit, trouble::deadlock, trouble::lock_timeout})
        CHECK(rule_of_lost(of_trouble(what)) == "ack_without_commit");
    CHECK(rule_of_lost([](saga const& s) { return s.is_at_stop; }) == "ack_at_sigterm");
    CHECK(rule_of_lost([](saga const& s) {
              return s.ends == "completed" && !s.trouble && !s.waits() && !s.is_at_stop;
          }) == "stands");
}

TEST_CASE("the amount is that of the saga, in the step and in its compensation")
{
    for (auto const* const step : {"charge", "charge.compensate"})
        CHECK(after([&](whole_run& r) {
                  r.shown.cents[at(r.find([&](saga const& s) { return s.effects.contains(step) && !s.trouble; }),
                                   step)] = {0};
              }) == "wrong_amount");
    CHECK(after([](whole_run& r) { r.shown.cents[at(r.plain(), "ship")].insert(-1); }) == "wrong_amount");
    make_plan(run, 1, {}).for_each([](saga const& s) { CHECK(s.data["cents"] > 0); });
}

TEST_CASE("a fault that the data ask for must show in the attempts")
{
    auto const has_faults = [](saga const& s) { return s.data["fails"] == 2 && s.data["fails_at"] == "ship"; };
    CHECK(after([&](whole_run& r) { r.shown.records[at(r.find(has_faults), "ship")].attempts = 1; }) == "hides_fault");
    CHECK(after([&](whole_run& r) { r.shown.records[at(r.find(has_faults), "ship")].attempts = 2; }) == "hides_fault");
}

TEST_CASE("what is still in the queue or in the outbox is not said to be lost")
{
    auto const rule_with = [](std::function<void(seen&)> const& change) {
        whole_run r;
        lose(r, r.find([](saga const& s) { return s.is_at_stop; }));
        change(r.shown);
        return r.first_rule();
    };
    CHECK(rule_with([](seen&) {}) == "ack_at_sigterm");
    CHECK(rule_with([](seen& shown) { shown.left = 1; }) == "never_acked");
    CHECK(rule_with([](seen& shown) { shown.unsent = 1; }) == "stands");
}

TEST_CASE("in a run whose time was over, what is missing is neither said to be lost nor a violation")
{
    whole_run r;
    r.shown.waited_for = "the end of a saga";
    lose(r, r.find([](saga const& one) { return one.is_at_stop; }));
    r.shown.parked.pop_back();
    r.shown.left = 1;
    auto const found = judge(r.planned, r.spoilt, r.shown);
    CHECK(found.front().rule == "not_finished");
    CHECK(found.back().rule == "stands");
    for (auto const& one : found) CHECK(one.is_open);
    r.shown.lines[at(r.plain(), "ship")]["inside"] = 2;
    CHECK(std::ranges::count(judge(r.planned, r.spoilt, r.shown), false, &violation::is_open) == 1);
}

TEST_CASE("a trouble that has not come is no violation, and each step that ends badly has one")
{
    whole_run r;
    r.shown.struck.clear();
    for (auto const& one : judge(r.planned, r.spoilt, r.shown)) CHECK((one.rule == "not_tried" && one.is_open));
    auto const ends = [](saga const& s) { return s.trouble && s.trouble->what == trouble::kill_in_end; };
    CHECK(std::ranges::count_if(r.planned.alone, ends) == 3);
    auto const first_cut =
        std::ranges::find_if(r.planned.alone, [](saga const& s) { return s.trouble && is_cut(s.trouble->what); });
    CHECK(std::all_of(first_cut, r.planned.alone.end(),
                      [](saga const& s) { return !s.trouble || is_cut(s.trouble->what); }));
}
