#include "admin/explanation.hpp"

#include "core/reasons.hpp"
#include "core/shell_word.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::admin {
namespace {

using core::saga_state;
using core::step_status;

std::string when(core::instant at, core::instant now)
{
    auto const text = core::write_instant(at);
    return fmt::format("{} {}Z ({} ago)", text.substr(0, 10), text.substr(11, 8), in_words(now - at));
}

// Without the full stop that it may have: the sentence goes on, or has its own.
std::string because(std::string const& why)
{
    if (why.empty()) return {};
    return ": " + why.substr(0, why.find_last_not_of(".\n") + 1);
}

std::string command_line(std::string_view verb, core::saga_id const& id, std::string_view rest = {})
{
    return '`' + core::saga_command(verb, id, rest) + '`';
}

bool is(std::optional<step_record> const& record, step_status status)
{
    return record && record->status == status;
}

// Also for a saga that is stuck by now: a step was rejected or cancelled, or a compensation has begun.
bool compensates(saga_facts const& saga)
{
    return std::ranges::any_of(saga.steps, [](auto const& s) {
        return s.compensation || is(s.record, step_status::rejected) || is(s.record, step_status::cancelled);
    });
}

// Parked, and nothing is left of it that could be put back: neither by a retry nor by a cancel.
bool is_gone(std::optional<step_record> const& record)
{
    return is(record, step_status::parked) && (record->error.starts_with("its delivery was dropped by ") ||
                                               record->error.starts_with("its message was dropped from "));
}

// The step ran, since only then is a compensation sent, but the record of it is gone: what it did was not undone. In
// the home's own database the compensation has replaced the missing record with one that counts no attempt.
bool lost_its_record(step_facts const& step)
{
    if (!is(step.compensation, step_status::cancelled) || step.compensation->error != core::nothing_to_undo)
        return false;
    return is(step.record, step_status::completed) ||
           (is(step.record, step_status::cancelled) && step.record->attempts == 0);
}

// The step after which there is only forward, if it has been passed.
step_facts const* passed_pivot(saga_facts const& saga)
{
    step_facts const* turning = nullptr;
    for (auto const& step : saga.steps) {
        if (step.kind != step_kind::retriable) turning = &step;
        else if (turning == nullptr || step.record) return turning == nullptr ? &step : turning;
    }
    return turning != nullptr && is(turning->record, step_status::completed) ? turning : nullptr;
}

std::string named(step_facts const& pivot)
{
    return pivot.kind == step_kind::pivot ? pivot.name + ", the pivot," : pivot.name;
}

core::instant last_news(saga_facts const& saga)
{
    auto latest = saga.created_at;
    for (auto const& step : saga.steps)
        for (auto const* record : {&step.record, &step.compensation})
            if (*record) latest = std::max(latest, (*record)->at);
    return latest;
}

// After this long it is worth checking; whether the step hangs or the message is lost can't be seen from here.
std::string where_to_look(saga_facts const& saga, std::string const& service)
{
    auto const silent = saga.now - last_news(saga);
    if (silent < std::chrono::minutes{1}) return {};
    auto const first =
        fmt::format(" Does a process of {0} run? `skald doctor` with {0}'s DATABASE_URL says whether one "
                    "consumes its queue.",
                    service);
    if (silent <= std::chrono::minutes{10}) return first;
    return fmt::format("{} If it logs step.hanging, its step has not returned: restart that process. If the message is "
                       "in no outbox and no queue, and not parked, it is lost: see docs/repair.md, \"A message that is "
                       "lost\".",
                       first);
}

// What holds up a step that is retried: "failed 2 times ...".
std::string retry_cause(step_record const& record, std::string const& service, core::instant now)
{
    if (record.error == "snoozed") return fmt::format("is snoozed at {} since {}", service, when(record.at, now));
    if (record.error.starts_with(core::awaits_deploy_mark))
        return fmt::format("waits for a process of {} that has it, last looked for at {}: {}", service,
                           when(record.at, now), record.error.substr(core::awaits_deploy_mark.size()));
    if (record.error == "put back" || record.attempts == 0)
        return fmt::format("was put back by an operator at {}, and waits for {} to take it", when(record.at, now),
                           service);
    return fmt::format("failed {} at {}, last at {}{}; it is tried again by itself",
                       record.attempts == 1 ? "once" : std::to_string(record.attempts) + " times", service,
                       when(record.at, now), because(record.error));
}

// A step between its two transactions.
std::string under_way(saga_facts const& saga, step_facts const& step, step_record const& record)
{
    auto const name =
        step.name + std::string{step.compensation && &record == &*step.compensation ? core::compensate_suffix : ""};
    auto const list = "`skald started list --key " + core::shell_word(saga.id.key) + '`';
    if (record.error.empty())
        return fmt::format(
            "{} has begun at {}, {}; it waits for the end of its call, for a signal or for a time. In that "
            "service's database {} says for what",
            name, step.service, when(record.at, saga.now), list);
    return fmt::format(
        "{} is under way at {}, attempt {}, and is tried again by itself. The latest from there, {}{}. In "
        "that service's database {} says more",
        name, step.service, record.attempts, when(record.at, saga.now), because(record.error), list);
}

step_facts const* under_way(saga_facts const& saga)
{
    auto const it = std::ranges::find_if(saga.steps, [](auto const& s) {
        return is(s.record, step_status::started) || is(s.record, step_status::unknown);
    });
    return it == saga.steps.end() ? nullptr : &*it;
}

std::string running(saga_facts const& saga)
{
    auto const next =
        std::ranges::find_if(saga.steps, [](auto const& s) { return !is(s.record, step_status::completed); });
    if (next == saga.steps.end()) return "running: every step has run, and its end is being recorded.";
    if (is(next->record, step_status::started))
        return fmt::format("running: {}.", under_way(saga, *next, *next->record));
    if (is(next->record, step_status::retrying))
        return fmt::format("running: {} {}.", next->name, retry_cause(*next->record, next->service, saga.now));
    return fmt::format("running: waiting for {} to take {} since {}.{}", next->service, next->name,
                       when(last_news(saga), saga.now), where_to_look(saga, next->service));
}

std::string compensating(saga_facts const& saga)
{
    std::string said = "compensating" + because(saga.reason);
    for (auto step = saga.steps.rbegin(); step != saga.steps.rend(); ++step) {
        if (!is(step->record, step_status::completed)) continue;
        if (is(step->compensation, step_status::completed) || is(step->compensation, step_status::cancelled)) continue;
        if (is(step->compensation, step_status::started))
            return fmt::format("{}; {}.", said, under_way(saga, *step, *step->compensation));
        if (is(step->compensation, step_status::retrying))
            return fmt::format("{}; the compensation of {} {}.", said, step->name,
                               retry_cause(*step->compensation, step->service, saga.now));
        return fmt::format("{}; waiting for {} to compensate {} since {}.{}", said, step->service, step->name,
                           when(last_news(saga), saga.now), where_to_look(saga, step->service));
    }
    return said + "; what had run is being undone.";
}

// Of a step whose message is gone. A saga that was cancelled takes no pause, and needs none.
std::string how_to_close(saga_facts const& saga)
{
    bool const is_cancelled = saga.command && saga.command->action == "cancel" && !saga.past_pivot;
    return fmt::format("Nothing is left to retry: {}close it; see docs/repair.md, \"A message that is lost\".",
                       is_cancelled ? std::string{} : command_line("pause", saga.id) + ", and ");
}

std::string stuck(saga_facts const& saga)
{
    for (auto const& step : saga.steps) {
        bool const is_compensation = is(step.compensation, step_status::parked);
        if (!is_compensation && !is(step.record, step_status::parked)) continue;
        auto const& record = is_compensation ? *step.compensation : *step.record;
        auto const after = record.attempts == 0   ? std::string{}
                           : record.attempts == 1 ? " after 1 attempt"
                                                  : fmt::format(" after {} attempts", record.attempts);
        if (record.error.starts_with("its delivery was dropped by "))
            return fmt::format(
                "stuck: {}{} was parked at {}, and {}. {}", step.name, is_compensation ? core::compensate_suffix : "",
                record.service.empty() ? step.service : record.service, record.error, how_to_close(saga));
        if (record.error.starts_with("its message was dropped from "))
            return fmt::format("stuck: {}{} can't run at {}: {}. {}", step.name,
                               is_compensation ? core::compensate_suffix : "", step.service, record.error,
                               how_to_close(saga));
        bool const can_cancel = !is_compensation && step.kind != step_kind::retriable;
        return fmt::format("stuck: {}{} was parked at {}{}, {}{}. Fix the cause, then {}{}.", step.name,
                           is_compensation ? core::compensate_suffix : "",
                           record.service.empty() ? step.service : record.service, after, when(record.at, saga.now),
                           because(record.error), command_line("retry", saga.id),
                           can_cancel ? ", or give it up with " + command_line("cancel", saga.id) : "");
    }
    return "stuck" + because(saga.reason) +
           ". The step that is parked was not reported here: search the other databases with "
           "`skald parked list`.";
}

// A call was made, and the other side can't tell what it has done.
std::string unknown(saga_facts const& saga)
{
    for (auto const& step : saga.steps) {
        bool const is_compensation = is(step.compensation, step_status::unknown);
        if (!is_compensation && !is(step.record, step_status::unknown)) continue;
        auto const& record = is_compensation ? *step.compensation : *step.record;
        auto const name = step.name + std::string{is_compensation ? core::compensate_suffix : ""};
        return fmt::format(
            "unknown: nobody knows what the call of {} at {} has done. The other side was asked at {}{}. It is asked "
            "again by itself, and not called again. Find out, and say so in that service's database: {}, "
            "or did-not-happen instead.",
            name, step.service, when(record.at, saga.now), because(record.error),
            command_line("resolve", saga.id, name + " happened --result JSON --reason WHY"));
    }
    return "unknown" + because(saga.reason) + '.';
}

std::string after_the_end(std::string const& step, step_record const& record, std::string const& service)
{
    if (record.status == step_status::completed)
        return fmt::format(" Since then {} ran at {}: check what it did.", step, service);
    if (record.status == step_status::parked)
        return fmt::format(" Since then the message of {} turned up at {}, and is parked there.", step, service);
    return {};
}

// For a saga closed by an operator: what a service did before the command reached it, and what turned up after.
std::string after_the_end(saga_facts const& saga)
{
    std::string text;
    auto const is_late = [&](std::optional<step_record> const& record) {
        return record && saga.finished_at && record->at > *saga.finished_at;
    };
    for (auto const& step : saga.steps) {
        if (is_late(step.record)) text += after_the_end(step.name, *step.record, step.service);
        if (is_late(step.compensation))
            text += after_the_end(step.name + std::string{core::compensate_suffix}, *step.compensation, step.service);
    }
    return text;
}

std::string ended(saga_facts const& saga)
{
    auto const at = saga.finished_at ? " at " + when(*saga.finished_at, saga.now) : std::string{};
    if (saga.reason.starts_with("closed by an operator "))
        return fmt::format("{}{}, {}.{}", saga.status == saga_state::completed ? "completed" : "compensated", at,
                           saga.reason, after_the_end(saga));
    if (saga.status == saga_state::completed) return fmt::format("completed{}: every step has run.", at);
    return fmt::format("compensated{}{}. {} had run was undone.", at, because(saga.reason),
                       std::ranges::any_of(saga.steps, lost_its_record) ? "What else" : "What");
}

std::string where(saga_facts const& saga)
{
    switch (saga.status) {
    case saga_state::running: return running(saga);
    case saga_state::compensating: return compensating(saga);
    case saga_state::stuck: return stuck(saga);
    case saga_state::unknown: return unknown(saga);
    case saga_state::completed:
    case saga_state::compensated: return ended(saga);
    }
    return {};
}

bool has_ended(saga_facts const& saga)
{
    return saga.status == saga_state::completed || saga.status == saga_state::compensated;
}

std::string about_command(saga_facts const& saga)
{
    if (!saga.command) return {};
    auto const& given = *saga.command;
    auto const asked = fmt::format("by {} at {}{}", given.by, when(given.at, saga.now), because(given.reason));
    if (given.action == "pause" && !has_ended(saga))
        return fmt::format(" It is paused {}. Resume it with {}.", asked, command_line("resume", saga.id));
    if (given.action != "cancel") return {};
    auto const* const pivot = passed_pivot(saga);
    if (pivot != nullptr && pivot->kind == step_kind::retriable)
        return fmt::format(" A cancel was requested {}; without effect: no step of it can be undone.", asked);
    if (pivot != nullptr)
        return fmt::format(" A cancel was requested {}; too late: {} completed before it was there, and after that a "
                           "saga can only go forward.",
                           asked, named(*pivot));
    if (auto const* const step = under_way(saga))
        return fmt::format(" A cancel was requested {}; if the call of {} has been made, what it has done comes first.",
                           asked, step->name);
    if (saga.status == saga_state::stuck && std::ranges::any_of(saga.steps, is_gone, &step_facts::record))
        return fmt::format(" A cancel was requested {}; no message is left that could carry it out.", asked);
    if ((saga.status == saga_state::running || saga.status == saga_state::stuck) && !compensates(saga))
        return fmt::format(" A cancel was requested {}; no service has reported yet that it took effect. One that was "
                           "down then runs what waits in its queue first.",
                           asked);
    return {};
}

std::string about_lost_records(saga_facts const& saga)
{
    std::string text;
    for (auto const& step : saga.steps)
        if (lost_its_record(step))
            text += fmt::format(
                " But {} completed at {}, and its compensation found no record of it there, so its effect may "
                "remain: check, and fix it manually (docs/repair.md, \"A step that was not undone\").",
                step.name, step.service);
    return text;
}

std::string about_deadline(saga_facts const& saga)
{
    if (!saga.deadline || (saga.status != saga_state::running && saga.status != saga_state::stuck)) return {};
    auto const* pivot = passed_pivot(saga);
    if (*saga.deadline > saga.now)
        return pivot != nullptr ? std::string{}
                                : fmt::format(" Its deadline is in {}.", in_words(*saga.deadline - saga.now));
    auto const passed = fmt::format(" Its deadline passed {} ago", in_words(saga.now - *saga.deadline));
    if (pivot != nullptr)
        return fmt::format("{}, but {} had completed: it can only go forward.", passed, named(*pivot));
    auto const next =
        std::ranges::find_if(saga.steps, [](auto const& s) { return !is(s.record, step_status::completed); });
    if (auto const* const step = under_way(saga))
        return fmt::format("{}; {} has begun, and ends first.", passed, step->name);
    if (saga.status == saga_state::stuck) return passed + ": once it is put back, it compensates.";
    return next == saga.steps.end() ? passed + "." : fmt::format("{}; {} has not taken it yet.", passed, next->service);
}

}  // namespace

std::string in_words(std::chrono::microseconds time)
{
    using namespace std::chrono;
    auto const s = std::max(floor<seconds>(time), seconds{0});
    if (s < minutes{2}) return fmt::format("{} s", s.count());
    if (s < hours{2}) return fmt::format("{} min", floor<minutes>(s).count());
    if (s < hours{48}) return fmt::format("{} h", floor<hours>(s).count());
    return fmt::format("{} days", floor<days>(s).count());
}

std::string explain(saga_facts const& saga)
{
    return where(saga) + about_lost_records(saga) + about_command(saga) + about_deadline(saga);
}

}  // namespace skald::admin
