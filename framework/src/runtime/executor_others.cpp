// Deliveries that belong to no step: other services' reports of sagas, commands, and what can't be read.
#include "runtime/executor.hpp"

#include "core/failpoint.hpp"
#include "runtime/consequences.hpp"
#include "runtime/deploy_wait.hpp"
#include "runtime/message_consequences.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <algorithm>
#include <utility>

namespace skald::runtime {

run_result executor::run_others(std::span<task> tasks)
{
    run_result result;
    auto& first = tasks.front();
    try {
        if (std::holds_alternative<report_message>(first.purpose)) take_in(tasks);
        else if (std::holds_alternative<command_message>(first.purpose)) take_command(first);
        else {
            auto const& bad = std::get<unreadable_message>(first.purpose);
            if (!await_deploy(first, bad)) park(first, bad.reason, bad.why);
        }
    }
    catch (ports::fault const& met) {
        auto const why = failure_of(met, false);
        auto const then = tasks.size() > 1 && why != failure::unavailable ? reaction::each_alone : reaction::again;
        result.not_processed = {why, then, met.what()};
    }
    catch (std::exception const& error) {
        auto const then = tasks.size() > 1 ? reaction::each_alone : reaction::again;
        result.not_processed = {failure::refused, then, error.what()};
    }
    if (auto const& met = result.not_processed)
        counts_->metrics.rolled_back.at(static_cast<std::size_t>(met->why)).add();
    return result;
}

// Which of its messages a handler has seen, only a process that has it can tell: so nothing is claimed, and the message
// is sent once more for later. False: it is not to wait, or not any longer.
bool executor::await_deploy(task const& t, unreadable_message const& bad)
try {
    if (bad.for_deploy.count() == 0) return false;
    store_.begin({});
    auto const since = waits_since(t);
    auto const now = store_.claimed_at();
    auto const wait = wait_for_deploy(bad.for_deploy, since, now, random_);
    if (!wait) {
        store_.rollback();
        return false;
    }
    ports::changes changes;
    changes.messages.push_back(message_unchanged(t, service_, since.value_or(now), *wait));
    commit(changes);
    counts_->unhosted.ends[metrics::step_end::awaits_deploy].add();
    auto const& m = t.delivery.message;
    log_.write(since ? core::severity::debug : core::severity::warning, "step.awaits_deploy",
               {{"id", m.id}, {"type", m.type}, {"handler", t.delivery.handler}, {"error", bad.why}});
    return true;
}
catch (...) {
    store_.rollback();
    throw;
}

// Takes in all of them or none; a single report that can't be taken in is parked.
void executor::take_in(std::span<task> reports)
{
    auto const& kind = std::get<report_message>(reports.front().purpose);
    bool const is_one = reports.size() == 1;
    auto const& type = reports.front().delivery.message.type;
    SKALD_FAILPOINT_IF(type == core::signal_type, "signal.taking");
    try {
        ports::changes changes;
        std::vector<std::string> arrays;
        for (auto const& one : reports) {
            auto read = detail::parse_checked(one.delivery.message.body);
            bool const is_report = read.is_array() && !read.empty() &&
                                   std::ranges::all_of(read, [](auto const& member) { return member.is_object(); });
            if (!is_report) throw data_error{"a message " + type + " is a JSON array of one object or more"};
            arrays.push_back(read.dump());
        }
        (changes.*kind.list).push_back(is_one ? std::move(arrays.front()) : join_arrays(arrays));
        store_.write(changes);
    }
    catch (data_error const& error) {
        if (!is_one) throw;
        return park(reports.front(), "malformed", error.what());
    }
    catch (ports::fault const& met) {
        if (!is_one || met.kind != ports::fault_kind::broken) throw;
        return park(reports.front(), "malformed", met.what());
    }
    if (type == core::signal_type && on_started_) on_started_();
    counts_->metrics.reports.add(reports.size());
    SKALD_FAILPOINT_IF(type == core::signal_type, "signal.taken");
    SKALD_FAILPOINT_IF(type == core::progress_type, "progress.noted");
    SKALD_FAILPOINT_IF(type == core::expire_type, "expire.recorded");
    SKALD_FAILPOINT_IF(type == core::expired_type, "expired.recorded");
}

// A command for one saga, from its home. Afterwards, whatever waits here for that saga is woken up.
void executor::take_command(task const& t)
{
    ports::changes changes;
    changes.commands.push_back(std::get<command_message>(t.purpose).command);
    SKALD_FAILPOINT("command.read");
    SKALD_FAILPOINT("command.taking");
    store_.write(changes);
    SKALD_FAILPOINT("command.taken");
    out_.notify();
    if (on_started_) on_started_();
    counts_->metrics.commands.add();
    log_.info("saga.command_taken", {{"id", t.delivery.message.id}});
}

void executor::park_refused(task const& t, std::string const& why)
{
    // The report may be what can't be written: better to park the delivery unreported than not at all.
    if (t.step() == nullptr || !park_and_log(t, why)) park(t, "unprocessable", why);
}

bool executor::park_and_log(task const& t, std::string const& why)
try {
    store_.begin({});
    ports::changes changes;
    auto const kept = add_refused(changes, t, why, {service_, store_.claimed_at(), random_});
    commit(changes);
    counts_->metrics.was_parked(kept.reason);
    log_outcome(t, kept);
    return true;
}
catch (ports::fault const&) {
    store_.rollback();
    return false;
}

void executor::park(task const& t, std::string_view reason, std::string const& why)
{
    auto const& m = t.delivery.message;
    auto parked = to_park(t, reason, why);
    parked.attempts = 0;
    parked.is_unreadable =
        t.delivery.handler.empty() ? reason == "malformed" : !parked.step.empty();  // it has a record, perhaps
    ports::changes changes;
    changes.parked.push_back(std::move(parked));
    out_.write(store_, changes);
    counts_->metrics.was_parked(reason);
    SKALD_FAILPOINT("delivery.parked");
    auto const key = core::find_header(m.headers, core::header::idempotency_key).value_or(std::string_view{});
    std::vector<core::log_field> fields{{"key", key}, {"type", m.type}, {"reason", reason}, {"error", why}};
    if (!t.delivery.handler.empty()) fields.emplace_back("handler", t.delivery.handler);
    log_.write(core::severity::error, "delivery.parked", fields);
}

void executor::record_contention(std::vector<ports::contention> changed) noexcept
try {
    ports::changes changes;
    changes.contention = std::move(changed);
    store_.write(changes);
}
catch (std::exception const& error) {
    log_.debug("step.limit_not_recorded", {{"error", error.what()}});
}

}  // namespace skald::runtime
