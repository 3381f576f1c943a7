#include "runtime/step_consequences.hpp"

#include "core/assert.hpp"
#include "core/backoff.hpp"
#include "core/instant.hpp"
#include "core/reasons.hpp"
#include "core/text.hpp"
#include "runtime/consequences.hpp"
#include "runtime/deploy_wait.hpp"
#include "runtime/message_consequences.hpp"
#include "runtime/started_rows.hpp"

#include <skald/detail/deadline.hpp>

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;
using core::severity;
using metrics::step_end;
using ports::claim_result;

// For a key that another transaction held for as long as the claim waited, and for a saga that is paused.
constexpr auto in_flight_wait = 1s;
constexpr auto paused_wait = 5s;

/// One step's delivery with everything that decides what follows from it.
class writer
{
public:
    writer(ports::changes& changes, task const& t, ports::claim_answer const& claimed, circumstances const& around)
        : changes_{changes}, task_{t}, step_{*t.step()}, claimed_{claimed}, around_{around}
    {}

    happened write(std::optional<step_result>&& how);
    happened park_and_report(std::string_view reason, std::string const& why);

private:
    happened put_back(std::chrono::milliseconds wait);
    happened park_delivery(std::string_view reason, std::string const& why);
    happened yield_to_other_home();
    happened park_closed();
    happened cancel();
    happened end(done&& how);
    happened end(rejected&& how);
    happened end(snoozed&& how);
    happened end(failed&& how);
    happened end(unrunnable&& how);
    happened end(started&& how);
    happened end(given_up&& how);
    happened end(postponed&& how);
    happened settle_later(std::chrono::milliseconds wait, std::string why, bool is_failure);
    void report(core::step_status status, int attempts, std::string const& why, core::saga_state saga);
    happened end_attempts(std::string why);
    // The next try would have a number that no message can carry.
    bool is_last_try() const { return step_.envelope.fencing_token() >= core::fencing_token_max; }
    void try_again(int attempts_made, int snoozes_added, std::string const& why, std::chrono::milliseconds wait,
                   std::optional<core::instant> waits_since = {});
    void park_step(unrunnable const& how);
    void add_transition(core::event what, std::string const& why, std::optional<std::string> changed = {},
                        int version = 0);
    core::transition after(core::event what) const;
    ports::enqueued once_more(core::envelope const& e, std::chrono::milliseconds wait) const
    {
        return step_.is_message() ? message_again(task_, e, wait) : received_for(e, wait);
    }
    // The data as it came, or its reference.
    ports::enqueued received_for(core::envelope const& e, std::chrono::milliseconds wait = {}) const
    {
        auto made = to_enqueue(e, {}, wait);
        core::carry_body(made.message, task_.delivery.message);
        return made;
    }

    ports::changes& changes_;
    task const& task_;
    step_message const& step_;
    ports::claim_answer const& claimed_;
    circumstances const& around_;
};
// A step that ended its own transaction leaves a record that says `completed`, though nothing follows from it.
bool ended_itself(ports::claim_answer const& claimed, std::optional<step_result> const& how)
{
    auto const* const why = how ? std::get_if<unrunnable>(&*how) : nullptr;
    return why != nullptr && why->reason == "transaction_ended" && claimed.result == claim_result::duplicate;
}

happened writer::write(std::optional<step_result>&& how)
{
    auto const* const wrong = how ? std::get_if<unrunnable>(&*how) : nullptr;
    bool const is_mismatch = claimed_.result == claim_result::mismatch;
    switch (claimed_.result) {
    case claim_result::in_flight: return put_back(in_flight_wait);
    case claim_result::paused: return put_back(paused_wait);
    case claim_result::closed: return park_closed();
    case claim_result::duplicate:
        if (ended_itself(claimed_, how)) return end(std::move(std::get<unrunnable>(*how)));
        [[fallthrough]];
    case claim_result::mismatch:
    case claim_result::cancelled:
        if (claimed_.held) break;
        if (claimed_.cause == ports::cancel_cause::other_home) return yield_to_other_home();
        // The outcome of the step is decided, and stands; only a delivery that was wrong is parked, and not what others
        // that ended the process took along.
        if (wrong != nullptr && wrong->for_deploy == 0ms && (is_mismatch || wrong->reason != "delivery_limit"))
            return park_delivery(wrong->reason, wrong->why);
        if (is_mismatch) return park_delivery("mismatch", "the key was used before with another body");
        if (task_.second) return {severity::info, "step.outdated", step_end::duplicate};
        if (step_.is_message()) repeat_reply(changes_, task_);
        return {severity::debug, "step.duplicate", step_end::duplicate};
    case claim_result::fresh:
    case claim_result::retry: break;
    }
    SKALD_ASSERT(claimed_.held);
    if (claimed_.result == claim_result::cancelled) {
        // One that a command or its deadline stops need not run, and so need not be parked: the saga compensates from
        // here. But if the step ended its transaction itself, an operator has to look at that first.
        bool const is_stopped =
            claimed_.cause == ports::cancel_cause::command || claimed_.cause == ports::cancel_cause::deadline;
        bool const is_newer = wrong != nullptr && wrong->for_deploy > 0ms;  // the plan says what comes next
        if (wrong == nullptr || is_newer || (is_stopped && wrong->reason != "transaction_ended")) return cancel();
    }
    return std::visit([this](auto& e) { return end(std::move(e)); }, *how);
}

// In flight does not mean done: a copy of the message comes back, so this delivery can be acked.
happened writer::put_back(std::chrono::milliseconds wait)
{
    changes_.messages.push_back(once_more(step_.envelope, wait));
    return {severity::debug, "step.put_back", step_end::put_back};
}

happened writer::park_delivery(std::string_view reason, std::string const& why)
{
    auto parked = to_park(task_, reason, why);
    parked.attempts = 0;
    changes_.parked.push_back(std::move(parked));
    return {severity::error, "delivery.parked", step_end::parked, 0, std::string{reason}, why};
}

// The record belongs to another home's saga, which goes on as if nothing had come. This one compensates, without a
// record of its own: its next step's record decides its outcome. If it can't compensate it is stuck.
happened writer::yield_to_other_home()
{
    auto why = "here the key " + step_.envelope.saga.key + " is that of a saga of " + claimed_.reason;
    if (step_.is_forward() && step_.envelope.itinerary.past_pivot()) return park_and_report("mismatch", why);
    add_transition(step_.is_forward() ? core::event::rejected : core::event::cancelled, why);
    return {severity::warning, "step.rejected", step_end::rejected, 0, std::move(why)};
}

// Nothing of it runs any more. An operator looks at what it would have done, and drops it; the home reports it.
happened writer::park_closed()
{
    return park_and_report("closed", "its saga was closed by an operator before this delivery was processed");
}

// Its saga waits for it, and the guard has no record that says so.
happened writer::park_and_report(std::string_view reason, std::string const& why)
{
    auto reported = step_.envelope;
    reported.reason = core::storable_text(why);
    add_report(changes_, reported, around_.service,
               {core::step_status::parked, 0, core::saga_state::stuck, true, why, around_.now, false});
    return park_delivery(reason, why);
}

happened writer::cancel()
{
    add_transition(core::event::cancelled, claimed_.reason);
    return {severity::info, "step.cancelled", step_end::cancelled, 0, claimed_.reason};
}

happened writer::end(done&& how)
{
    if (task_.second) changes_.settled.push_back(task_.second->id);
    // The messages of both transactions are numbered from 1.
    auto const key = step_.key().text() + (task_.second ? ".settled" : "");
    add_published(changes_, step_.envelope.saga, step_.envelope.definition, key, step_.envelope.trace, how.published);
    if (how.reply) add_reply(changes_, task_, *how.reply);
    add_transition(core::event::completed, "", std::move(how.data), how.version);
    return {severity::debug, "step.completed", step_end::completed, claimed_.attempts};
}

happened writer::end(rejected&& how)
{
    add_transition(core::event::rejected, how.reason);
    return {severity::info, "step.rejected", step_end::rejected, 0, std::move(how.reason)};
}

happened writer::end(snoozed&& how)
{
    if (task_.second) return settle_later(how.wait, "snoozed", false);
    if (is_last_try()) return end_attempts("it was snoozed or retried as often as can be counted");
    try_again(claimed_.attempts - 1, 1, "snoozed",
              std::clamp<std::chrono::milliseconds>(how.wait, 1ms, detail::deadline_max));
    return {severity::debug, "step.snoozed", step_end::snoozed, claimed_.attempts};
}

// One more try, if one is left.
happened writer::end(failed&& how)
{
    auto const& policy = step_.hosted->options.retry;
    if (task_.second) {
        core::backoff const backoff{policy.first, policy.longest};
        auto const wait =
            std::max<std::chrono::milliseconds>(backoff.wait(task_.second->tries + 1, around_.random), 100ms);
        return settle_later(wait, std::move(how.why), true);
    }
    if (claimed_.attempts < policy.attempts_max && !is_last_try()) {
        core::backoff const backoff{policy.first, policy.longest};
        try_again(claimed_.attempts, 0, how.why, backoff.wait(claimed_.attempts, around_.random));
        return {severity::warning, "step.failed", step_end::failed, claimed_.attempts, {}, std::move(how.why)};
    }
    return end_attempts(std::move(how.why));
}

// The saga compensates; or, if it no longer can, the step is parked.
happened writer::end_attempts(std::string why)
{
    // If it compensates, this is recorded like a rejection, whose reason the saga's customer may read.
    auto const recorded = after(core::event::attempts_exhausted).recorded;
    bool const compensates = recorded == core::step_status::rejected;
    add_transition(core::event::attempts_exhausted, compensates ? core::failed_last_attempt(why) : why);
    if (changes_.records.back().status != core::step_status::parked)
        return {severity::warning, "step.attempts_exhausted", step_end::exhausted, claimed_.attempts, {},
                std::move(why)};
    changes_.parked.push_back(to_park(task_, "attempts_exhausted", why));
    return {severity::error, "step.parked", step_end::parked, claimed_.attempts, "attempts_exhausted", std::move(why)};
}

// Parked with its record, so that the saga shows as stuck and not as running.
happened writer::end(unrunnable&& how)
{
    if (task_.second) return end(failed{std::move(how.why)});
    auto const since = step_.envelope.waits_since;
    if (auto const wait = wait_for_deploy(how.for_deploy, since, around_.now, around_.random); wait && !is_last_try()) {
        try_again(claimed_.attempts - 1, 1, std::string{core::awaits_deploy_mark} + how.why, *wait,
                  since.value_or(around_.now));
        auto const level = since ? severity::debug : severity::warning;
        return {level, "step.awaits_deploy", step_end::awaits_deploy, 0, {}, std::move(how.why)};
    }
    park_step(how);
    return {severity::error, "step.parked", step_end::parked, 0, std::string{how.reason}, std::move(how.why)};
}

// The delivery is done with: what goes on is the row. Its message has the data that the first transaction left.
happened writer::end(started&& how)
{
    auto const& e = step_.envelope;
    add_published(changes_, e.saga, e.definition, step_.key().text(), e.trace, how.published);
    changes_.records.push_back(
        {e.saga, step_.key().guarded_step(), core::step_status::started, claimed_.attempts, 0, ""});
    changes_.started.push_back(row_to_start(task_, std::move(how)));
    report(core::step_status::started, claimed_.attempts, "", core::saga_state::running);
    return {severity::debug, "step.started", step_end::started, claimed_.attempts};
}

// Its call has not happened, or means a rejection; or it need not be waited for any more.
happened writer::end(given_up&& how)
{
    changes_.settled.push_back(task_.second->id);
    if (how.event == core::event::attempts_exhausted) {
        auto const said = end_attempts(std::move(how.why));
        // If it is put back, its data may differ from what first came.
        changes_.records.back().drop_fingerprint = true;
        return said;
    }
    add_transition(how.event, how.why);
    bool const is_rejection = how.event == core::event::rejected;
    return {severity::info, is_rejection ? "step.rejected" : "step.cancelled",
            is_rejection ? step_end::rejected : step_end::cancelled, 0, std::move(how.why)};
}

happened writer::end(postponed&& how)
{
    bool const is_unknown = how.status == core::step_status::unknown;
    int const attempts = claimed_.attempts + (how.is_attempt ? 1 : 0);
    auto why = how.release.why;
    changes_.records.push_back({step_.envelope.saga, step_.key().guarded_step(), how.status, attempts, 0, why});
    changes_.released.push_back(std::move(how.release));
    report(how.status, attempts, why, is_unknown ? core::saga_state::unknown : core::saga_state::running);
    auto const level = how.is_news ? severity::error : severity::debug;
    if (is_unknown) return {level, "step.unknown", step_end::unknown, attempts, {}, std::move(why)};
    return {severity::warning, "step.failed", step_end::failed, attempts, {}, std::move(why)};
}

// What has happened outside can't be forgotten: it is settled again, however often that fails.
happened writer::settle_later(std::chrono::milliseconds wait, std::string why, bool is_failure)
{
    if (is_failure) why = "its end could not be recorded: " + why;
    changes_.released.push_back(release_to_settle(*task_.second, wait, why, is_failure));
    changes_.records.push_back(
        {step_.envelope.saga, step_.key().guarded_step(), core::step_status::started, claimed_.attempts, 0, why});
    report(core::step_status::started, claimed_.attempts, why, core::saga_state::running);
    if (!is_failure) return {severity::debug, "step.snoozed", step_end::snoozed, claimed_.attempts};
    auto const level = task_.second->tries == 0 ? severity::error : severity::debug;
    return {level, "step.not_settled", step_end::failed, claimed_.attempts, {}, std::move(why)};
}

// Of a saga that was `unknown`, anything that is reported may be what makes it known.
void writer::report(core::step_status status, int attempts, std::string const& why, core::saga_state saga)
{
    auto reported = step_.envelope;
    bool const is_unknown = saga == core::saga_state::unknown;
    if (is_unknown) reported.reason = core::storable_text(why);
    add_report(changes_, reported, around_.service,
               {status, attempts, saga, is_unknown || task_.second.has_value(), why, around_.now});
}

void writer::park_step(unrunnable const& how)
{
    // A delivery that was wrong has made no attempt: the right one, if it comes, still has its first one.
    bool const was_wrong = how.reason == "malformed" || how.reason == "unknown_step";
    // One whose body is not there is the right one, and comes again when it is.
    bool const is_incomplete = how.reason == "body_missing" || how.reason == "body_damaged";
    int const attempts = was_wrong || is_incomplete ? claimed_.attempts - 1 : claimed_.attempts;
    changes_.records.push_back(
        {step_.envelope.saga, step_.key().guarded_step(), core::step_status::parked, attempts, 0, how.why, was_wrong});
    changes_.parked.push_back(to_park(task_, how.reason, how.why));
    auto reported = step_.envelope;
    reported.reason = how.why;
    add_report(changes_, reported, around_.service,
               {core::step_status::parked, attempts, core::saga_state::stuck, true, how.why, around_.now});
}

// The record of what was tried and the message that will try again commit together.
void writer::try_again(int attempts_made, int snoozes_added, std::string const& why, std::chrono::milliseconds wait,
                       std::optional<core::instant> waits_since)
{
    auto again = step_.envelope;
    again.waits_since = waits_since;
    again.attempt = attempts_made + 1;
    again.snoozes = step_.envelope.fencing_token() + 1 - again.attempt;
    // The step's deadline counts from its first try here. The sender of the message does not know this service's
    // policy, so the first message that tries again carries the deadline.
    auto const longest = waits_since ? 0ms : step_.hosted->options.retry.deadline;
    if (longest.count() > 0 && !again.step_deadline) again.step_deadline = task_.first_tried + longest;

    changes_.records.push_back(
        {again.saga, step_.key().guarded_step(), core::step_status::retrying, attempts_made, snoozes_added, why});
    changes_.messages.push_back(
        once_more(again, core::wait_within(again.deadline(), around_.now,
                                           std::min<std::chrono::milliseconds>(wait, detail::deadline_max))));
    add_report(changes_, step_.envelope, around_.service,
               {core::step_status::retrying, attempts_made, core::saga_state::running, false, why, around_.now});
}

core::transition writer::after(core::event what) const
{
    return step_.is_message() ? core::next_of_message(what) : core::next(step_.envelope.itinerary, what);
}

// Writes down what core::next() says follows from `what`: the record, the next message, the report to the home.
// `changed`: the data that goes on, of `version` (0: the same); nothing: as it came.
void writer::add_transition(core::event what, std::string const& why, std::optional<std::string> changed, int version)
{
    auto const& e = step_.envelope;
    auto const then = after(what);

    // A fresh record says `completed` already.
    if (!claimed_.held) SKALD_ASSERT(claimed_.cause == ports::cancel_cause::other_home);
    else if (then.recorded != core::step_status::completed || claimed_.result != claim_result::fresh)
        changes_.records.push_back({e.saga, step_.key().guarded_step(), then.recorded, claimed_.attempts, 0, why});

    auto reported = e;
    if (reported.reason.empty()) reported.reason = core::storable_text(why);
    if (version > 0) reported.version = version;
    if (auto const at = then.next ? reported.at(*then.next) : reported; then.next)
        changes_.messages.push_back(changed ? to_enqueue(at, *std::move(changed)) : received_for(at));

    bool const is_news = then.saga != core::saga_state::running || claimed_.result != claim_result::fresh;
    add_report(changes_, reported, around_.service,
               {then.recorded, claimed_.attempts, then.saga, is_news, why, around_.now, claimed_.held});
}

}  // namespace

bool must_run(ports::claim_answer const& claimed)
{
    return claimed.result == claim_result::fresh || claimed.result == claim_result::retry;
}

happened add_refused(ports::changes& changes, task const& t, std::string const& why, circumstances const& around)
{
    SKALD_ASSERT(t.step() != nullptr);
    return writer{changes, t, {}, around}.park_and_report("unprocessable", why);
}

happened add_consequences(ports::changes& changes, task const& t, ports::claim_answer const& claimed,
                          std::optional<step_result> how, circumstances const& around)
{
    SKALD_ASSERT(t.step() != nullptr);
    SKALD_ASSERT(how || !must_run(claimed));
    return writer{changes, t, claimed, around}.write(std::move(how));
}

}  // namespace skald::runtime
