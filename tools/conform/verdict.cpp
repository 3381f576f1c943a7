#include "conform/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace skald::conform {
namespace {

using nlohmann::json;

struct rule
{
    std::string_view name, remedy;
};

// Of these, and of nothing else, a run says that it could not find out.
constexpr std::array open_rules{std::string_view{"not_finished"}, std::string_view{"not_tried"}};
// Something is not there yet: in a run whose time was over, it may still come.
constexpr std::array rules_of_missing{std::string_view{"event_lost"}, std::string_view{"not_reported"},
                                      std::string_view{"not_parked"}, std::string_view{"never_acked"},
                                      std::string_view{"stands"}};

// In the order in which they are told: what says most about the cause comes first.
constexpr std::array rules{
    rule{"not_finished", "look at what it waited for; give a slow program more time (--at-most)"},
    rule{"ack_before_commit",
         "ack a delivery when COMMIT has returned, of the step or of skald.fail() and its like, and not before"},
    rule{"ack_without_commit",
         "where the transaction has failed, run the delivery again, or requeue it; and remember nothing of it"},
    rule{"ack_at_sigterm", "after SIGTERM, ack what has committed, and no other delivery"},
    rule{"ignores_verdict", "run the step only where skald.take() says `run`; after `ack`, COMMIT and ack"},
    rule{"effect_outside", "write on the connection, and in the transaction, in which skald.take() was called"},
    rule{"effect_after_done", "write before skald.done(), and COMMIT once, after it"},
    rule{"reject_without_rollback", "ROLLBACK before skald.reject(), and write nothing after it"},
    rule{"publishes_directly", "publish with skald.publish(), in the step's transaction; the relay sends it"},
    rule{"event_twice", "call skald.publish() once for each message"},
    rule{"wrong_amount", "take the amount from the data of this delivery, for the step and for its compensation"},
    rule{"hides_fault", "after a fault: ROLLBACK, skald.fail(), ack; and nothing of the step stays"},
    rule{"commit_not_durable",
         "leave synchronous_commit as it is in the step: skald.take() has set it for its transaction"},
    rule{"loses_members", "change the members that the step knows in the data as they came, and pass on all others"},
    rule{"snoozes_by_ack", "ROLLBACK and call skald.snooze(); ack when that has committed"},
    rule{"effect_twice", "write in the transaction of skald.take(), and only where it says `run`"},
    rule{"effect_lost", "write before skald.done(), in the same transaction"},
    rule{"effect_not_due", "run the step only where skald.take() says `run`"},
    rule{"event_lost", "publish with skald.publish(), in the step's transaction"},
    rule{"does_not_wait", "ask for the row of conform.gate, and snooze without it"},
    rule{"ends_by_itself", "no delivery may end the process: catch what its step throws, and call skald.fail()"},
    rule{"gives_up",
         "give skald.take() `given_up` only for what is in skald.SERVICE.parked and has x-first-death-reason: "
         "delivery_limit, or is a redelivery"},
    rule{"wrong_end", "end the step as the data say (docs/conform.md), with one call for each end"},
    rule{"not_reported", "end every delivery with skald.done() or its like: they write the report"},
    rule{"not_parked",
         "pass every delivery to skald.take(), also what can't be read; and consume skald.SERVICE.parked"},
    rule{"parked", "look at `skald parked show`: the error says why"},
    rule{"never_acked", "ack each delivery once what was written for it is committed"},
    rule{"ignores_sigterm", "after SIGTERM, end the step that runs, close the connections, and exit, within 10 s"},
    rule{"not_tried", "a slow program needs more time (--patience)"},
    rule{"stands", "look at `skald saga show` and the log of the participant for its last delivery"},
};

std::size_t rank(std::string_view name)
{
    return static_cast<std::size_t>(std::ranges::find(rules, name, &rule::name) - rules.begin());
}

std::string first_difference(json const& wanted, json const& got)
{
    if (!got.is_object()) return "the data is no object any more";
    for (auto const& [name, value] : wanted.items()) {
        auto const found = got.find(name);
        if (found == got.end()) return fmt::format("the member {} is lost", json(name).dump());
        if (*found != value)
            return fmt::format("the member {} was {}, and is {}", json(name).dump(), value.dump(), found->dump());
    }
    for (auto const& [name, value] : got.items())
        if (!wanted.contains(name)) return fmt::format("the member {} was never there", json(name).dump());
    return {};
}

class examination
{
public:
    examination(plan const& planned, seen const& shown) : planned_{planned}, shown_{shown}
    {
        for (auto const& [step, lines] : shown.lines)
            if (lines.contains("outside") && record_of(step).status != "rejected") writes_outside_ = true;
    }

    std::vector<violation> run(std::vector<spoilt_message> const& spoilt)
    {
        planned_.for_each([this](saga const& one) { examine(one); });
        for (auto const& one : spoilt) examine(one);
        examine_others();
        for (auto& one : found_)
            one.is_open =
                is_in(open_rules, one.rule) || (!shown_.waited_for.empty() && is_in(rules_of_missing, one.rule));
        std::ranges::stable_sort(found_, {}, [](violation const& one) { return rank(one.rule); });
        return std::move(found_);
    }

private:
    void add(std::string_view rule_name, step_name step, std::string what)
    {
        found_.push_back(
            {std::string{rule_name}, std::move(step), std::move(what), std::string{rules[rank(rule_name)].remedy}});
    }

    static bool is_in(auto const& names, std::string_view name)
    {
        return std::ranges::find(names, name) != names.end();
    }

    static step_name at(saga const& s, std::string const& step) { return {s.name.first, s.name.second, step}; }

    step_record record_of(step_name const& step) const
    {
        auto const found = shown_.records.find(step);
        return found == shown_.records.end() ? step_record{} : found->second;
    }

    void examine(saga const& s)
    {
        auto const found = shown_.sagas.find(s.name);
        told const of = found == shown_.sagas.end() ? told{} : found->second;
        for (auto const* const step : all_steps) {
            examine_lines(s, step);
            examine_amount(s, step);
        }
        examine_faults(s);
        examine_events(s, of);
        if (of.ends.empty()) return examine_standing(s);
        if (of.ends == s.ends) {
            examine_untried(s);
            examine_due(s);
        }
        if (s.is_dead_lettered && is_parked(at(s, "charge"), "delivery_limit"))
            add("gives_up", at(s, "charge"), "it was parked as what came too often, and has no x-first-death-reason");
        if (of.ends != s.ends)
            add("wrong_end", at(s, ""), fmt::format("{} must end {}, and is {}", s.what, s.ends, of.ends));
        if (of.data)
            if (auto const why = first_difference(s.data_at_the_end(), *of.data); !why.empty())
                add("loses_members", at(s, ""), fmt::format("{}: {}", s.what, why));
        if (s.waits() && of.ends == s.ends && record_of(at(s, s.data["waits_at"])).snoozes == 0)
            add("does_not_wait", at(s, s.data["waits_at"]), "the gate was closed, and it has run without a snooze");
        examine_reports(s, of);
        if (s.ends == "stuck")
            expect_parked(at(s, s.effects.contains("ship") ? "pay-out" : "charge.compensate"), "attempts_exhausted",
                          s.what);
        if (s.is_sent_changed)
            expect_parked(at(s, "charge"), "mismatch", "charge was sent once more with another body");
    }

    void examine_untried(saga const& s)
    {
        if (s.trouble && !shown_.struck.contains(s.name))
            add("not_tried", at(s, s.trouble->step),
                "its line of the ledger was not written while the run waited for it: nothing is shown of what was to "
                "come to it");
        if (shown_.not_held.contains(s.name))
            add("not_tried", at(s, "charge"),
                "no process had taken it when all of them got SIGTERM: nothing is shown of how they end with work");
    }

    // Of a saga that has ended as planned. What is recorded and without a line is told with the lines.
    void examine_due(saga const& s)
    {
        for (auto const& step : s.effects)
            if (auto const name = at(s, step); record_of(name).status.empty() && !shown_.lines.contains(name))
                add("effect_lost", name,
                    fmt::format("the saga is {}, and the step is neither recorded nor in the ledger", s.ends));
    }

    // A saga that has not ended. What is still under way is not lost.
    void examine_standing(saga const& s)
    {
        bool const is_over = shown_.waited_for.empty() && shown_.left == 0 && shown_.unsent == 0;
        if (is_over && names_what_is_lost(s)) return;
        std::string const waits_at = s.data["waits_at"];
        if (is_over && s.waits() && record_of(at(s, waits_at)).snoozes == 0)
            return add("snoozes_by_ack", at(s, waits_at),
                       "it was to wait, its delivery is gone, and no snooze is recorded: the saga stands");
        add("stands", at(s, ""), fmt::format("{} has not ended", s.what));
    }

    // A step without a record, which nothing will deliver again.
    bool names_what_is_lost(saga const& s)
    {
        auto const is_lost = [&](std::string const& step) { return record_of(at(s, step)).status.empty(); };
        if (s.trouble && shown_.struck.contains(s.name) && is_lost(s.trouble->step)) {
            add(is_kill(s.trouble->what) ? "ack_before_commit" : "ack_without_commit", at(s, s.trouble->step),
                fmt::format("{}, and it was not delivered again: the saga stands", in_words(s.trouble->what)));
            return true;
        }
        auto const lost = std::ranges::find_if(forward_steps, is_lost);
        if (!s.is_at_stop || lost == forward_steps.end()) return false;
        add("ack_at_sigterm", at(s, *lost),
            "the processes got SIGTERM while it was theirs, and it was not delivered again: the saga stands");
        return true;
    }

    static std::string in_words(trouble what)
    {
        if (is_kill(what)) return fmt::format("all processes were killed inside {}", where(what, "its COMMIT"));
        if (what == trouble::deadlock) return "its transaction was the victim of a deadlock";
        if (what == trouble::lock_timeout) return "its transaction has waited for a lock for too long (55P03)";
        return fmt::format("its connection broke inside {}", where(what, "COMMIT"));
    }

    static std::string_view where(trouble what, std::string_view commit)
    {
        auto const in = place_of(what);
        return in == place::step ? "the step" : in == place::commit ? commit : "the COMMIT of how it ended badly";
    }

    void examine_amount(saga const& s, std::string const& step)
    {
        auto const found = shown_.cents.find(at(s, step));
        if (found == shown_.cents.end()) return;
        auto const wanted = s.data["cents"].get<std::int64_t>();
        for (auto const cents : found->second)
            if (cents != wanted)
                add("wrong_amount", at(s, step),
                    fmt::format("the ledger has {} cents, and the data say {}", cents, wanted));
        if (shown_.not_flushed.contains(at(s, step)))
            add("commit_not_durable", at(s, step),
                "it has committed with synchronous_commit = off: after a crash of the server it may be gone, and its "
                "message sent");
    }

    void examine_faults(saga const& s)
    {
        auto const name = at(s, s.data["fails_at"]);
        auto const record = record_of(name);
        auto const least = s.data["fails"].get<int>() + 1;
        if (record.status == "completed" && record.attempts < least)
            add("hides_fault", name,
                fmt::format(
                    "the data ask for a fault in {} of its attempts, and it is recorded as completed in attempt {}",
                    least - 1, record.attempts));
    }

    void examine_lines(saga const& s, std::string const& step)
    {
        auto const name = at(s, step);
        auto const found = shown_.lines.find(name);
        auto const record = record_of(name);
        if (found == shown_.lines.end()) {
            if (record.status == "completed")
                add("effect_lost", name, "it is recorded as completed, and the ledger has no line of it");
            return;
        }
        int lines = 0;
        for (auto const& [where, count] : found->second) lines += count;
        auto const written = [&](char const* where) {
            auto const these = found->second.find(where);
            return these == found->second.end() ? 0 : these->second;
        };
        int const after_ack = written("after ack");
        if (after_ack > 0)
            add("ignores_verdict", name,
                fmt::format("skald.take() said `ack`, and the step was run all the same: {}", in_words(after_ack)));
        if (record.status == "rejected" && lines > after_ack && !writes_outside_)
            return add("reject_without_rollback", name,
                       fmt::format("it was rejected, and its effect is there: {}", in_words(lines)));
        if (written("outside") > 0)
            add("effect_outside", name,
                fmt::format("{} written in another transaction than skald.take()", in_words(written("outside"))));
        if (written("after done") > 0)
            add("effect_after_done", name,
                fmt::format("{} written after the step's transaction had committed", in_words(written("after done"))));
        if (lines > 1)
            add("effect_twice", name, fmt::format("its effect is there more than once: {}", in_words(lines)));
        if (lines > after_ack && written("outside") == 0 && !s.effects.contains(step))
            add("effect_not_due", name, fmt::format("of {}, where it was not to run: {}", s.what, in_words(lines)));
    }

    static std::string in_words(int lines)
    {
        return fmt::format("{} line{} of the ledger", lines, lines == 1 ? "" : "s");
    }

    void examine_events(saga const& s, told const& of)
    {
        auto const name = at(s, "ship");
        bool const is_done = record_of(name).status == "completed";
        if (!is_done && !of.events.empty())
            add("publishes_directly", name, fmt::format("`shipped` was sent, and ship has not committed: {}", s.what));
        else if (shown_.sent_early.contains(s.name))
            add("publishes_directly", name, "`shipped` was sent while the COMMIT of ship was held");
        else if (of.events.size() > 1)
            add(std::ranges::all_of(of.events, [&](auto const& id) { return is_of_publish(id, s); })
                    ? "event_twice"
                    : "publishes_directly",
                name, fmt::format("`shipped` was sent {} times, each with another id", of.events.size()));
        else if (is_done && of.events.empty()) add("event_lost", name, "ship has committed, and no `shipped` came");
    }

    // As skald.publish() makes it: KEY:ship.NUMBER.shipped
    static bool is_of_publish(std::string_view id, saga const& s)
    {
        auto const before = s.name.second + ":ship.";
        constexpr std::string_view after = ".shipped";
        return id.size() > before.size() + after.size() && id.starts_with(before) && id.ends_with(after) &&
               id.substr(before.size(), id.size() - before.size() - after.size()).find_first_not_of("0123456789") ==
                   std::string_view::npos;
    }

    void examine_reports(saga const& s, told const& of)
    {
        for (auto const* const step : all_steps) {
            auto const status = record_of(at(s, step)).status;
            if (status != "completed" && status != "rejected" && status != "parked") continue;
            auto const report = of.reports.find(step);
            auto const said = report == of.reports.end() ? std::string{"nothing"} : report->second.second;
            if (said != status)
                add("not_reported", at(s, step),
                    fmt::format("it is recorded as {}, and the home was told {}", status, said));
        }
    }

    bool is_parked(step_name const& step, std::string_view reason) const
    {
        return std::ranges::any_of(shown_.parked,
                                   [&](parked_row const& row) { return row.step == step && row.reason == reason; });
    }

    void expect_parked(step_name const& step, std::string const& reason, std::string const& why)
    {
        expected_.insert({step, reason});
        if (!is_parked(step, reason)) add("not_parked", step, fmt::format("{}: it is not parked as {}", why, reason));
    }

    void examine(spoilt_message const& one)
    {
        expected_ids_.insert(one.message.id);
        auto const rows = std::ranges::count(shown_.parked, one.message.id, &parked_row::id);
        auto const found = std::ranges::find(shown_.parked, one.message.id, &parked_row::id);
        step_name const name{"", one.message.id, ""};
        if (rows == 0) add("not_parked", name, fmt::format("{} is not parked", one.what));
        else if (rows > 1) add("parked", name, fmt::format("{} is parked {} times", one.what, rows));
        else if (found->reason != one.reason)
            add("not_parked", name, fmt::format("{} is parked as {}, not as {}", one.what, found->reason, one.reason));
    }

    void examine_others()
    {
        if (!shown_.waited_for.empty())
            add("not_finished", {},
                fmt::format("the time of the run was over while it waited for {}: what stands may only be slow",
                            shown_.waited_for));
        for (auto const& row : shown_.parked)
            if (!expected_ids_.contains(row.id) && !expected_.contains({row.step, row.reason}))
                add("parked", row.step, fmt::format("a right delivery is parked as {}: {}", row.reason, row.error));
        if (shown_.left > 0)
            add("never_acked", {},
                fmt::format("{} deliveries are in the queue again after all processes have ended", shown_.left));
        if (shown_.ended_by_itself > 0)
            add("ends_by_itself", {},
                fmt::format("processes ended {} times, and nobody had ended them", shown_.ended_by_itself));
        if (shown_.not_stopped > 0)
            add("ignores_sigterm", {},
                fmt::format("{} times a process had not ended 10 s after SIGTERM, and was killed", shown_.not_stopped));
    }

    static constexpr std::array all_steps{"charge", "ship", "pay-out", "charge.compensate"};
    static constexpr std::array forward_steps{"charge", "ship", "pay-out"};

    plan const& planned_;
    seen const& shown_;
    std::set<std::pair<step_name, std::string>> expected_;
    std::set<std::string> expected_ids_;
    bool writes_outside_{};  // not only where a step is rejected
    std::vector<violation> found_;
};

}  // namespace

std::vector<violation> judge(plan const& planned, std::vector<spoilt_message> const& spoilt, seen const& shown)
{
    return examination{planned, shown}.run(spoilt);
}

}  // namespace skald::conform
