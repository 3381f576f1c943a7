// Where a step did not end well: it is tried again, or goes back, or is parked. Always from a rollback on: the step is
// claimed anew, and what becomes of it is recorded in a transaction of its own.
#include "runtime/step_delivery.hpp"

#include "core/deadline.hpp"
#include "core/failpoint.hpp"
#include "runtime/consequences.hpp"

#include <algorithm>
#include <array>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// How often in a row a step may be rolled back by deadlocks and the like before that counts as an attempt.
constexpr int rollbacks_max = 8;

}  // namespace

/// One more try: what the record says of those that were made, and when the message comes.
struct executor::next_try
{
    int attempts_made{};
    int snoozes_added{};
    std::string why;
    std::chrono::milliseconds wait{};
};

// Nothing of the step remains; or, where the step itself ended the transaction, nobody can say what remains: then it is
// parked for an operator to look at, and false is returned.
bool executor::roll_back(step_delivery const& work)
{
    bool const ours = store_.is_still_claimed();
    store_.rollback();
    SKALD_FAILPOINT("step.rolled_back");
    if (!ours) give_up(work, "transaction_ended", "the step ran COMMIT or ROLLBACK itself; look at what it wrote");
    return ours;
}

// What broke the step counts as an attempt; what broke beneath it does not, and goes to the lane, which tries again.
void executor::fail_or_throw(step_delivery const& work, ports::fault const& met)
{
    if (met.kind == ports::fault_kind::transaction_ended) return give_up(work, "transaction_ended", met.what());
    bool const counts = met.kind == ports::fault_kind::broken ||
                        (met.kind == ports::fault_kind::retry_at_once && ++rolled_back_in_a_row_ > rollbacks_max);
    if (!counts) throw met;
    rolled_back_in_a_row_ = 0;
    fail(work, met.what());
}

// A no, whoever said it: nothing of the step remains, and what follows is recorded in a transaction of its own.
void executor::decide(step_delivery const& work, core::event what, std::string const& why)
{
    ports::claim_answer claimed;
    if (claim_again(work, claimed)) write_no(work, claimed, what, why);
}

void executor::write_no(step_delivery const& work, ports::claim_answer const& claimed, core::event what,
                        std::string const& why)
{
    ports::changes changes;
    add_transition(changes, work, claimed, what, why, work.delivery->message.body);
    commit(changes);
    tell_no(work, what, why);
}

void executor::tell_no(step_delivery const& work, core::event what, std::string const& why)
{
    log_.info(what == core::event::rejected ? "step.rejected" : "step.cancelled",
              {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}, {"reason", why}});
}

void executor::fail(step_delivery const& work, std::string const& why)
{
    SKALD_MUTANT("retry_in_broker_only", throw ports::fault(ports::fault_kind::connection_lost, why));
    ports::claim_answer claimed;
    if (!claim_to_try_again(work, claimed)) return;
    auto const& policy = work.hosted->policy;
    bool const exhausted = claimed.attempts >= policy.attempts_max;
    log_.warning(exhausted ? "step.attempts_exhausted" : "step.failed", {{"key", work.key().text()},
                                                                         {"scope", work.envelope.saga.scope},
                                                                         {"attempt", claimed.attempts},
                                                                         {"error", why}});
    if (exhausted) return exhaust(work, claimed, why);
    core::backoff const backoff{policy.first, policy.longest};
    try_again(work, {claimed.attempts, 0, why, backoff.wait(claimed.attempts, random_)});
}

// The step goes back; or it is parked, where there is no way back.
void executor::exhaust(step_delivery const& work, ports::claim_answer const& claimed, std::string const& why)
{
    ports::changes changes;
    add_transition(changes, work, claimed, core::event::attempts_exhausted, why, work.delivery->message.body);
    if (changes.records.front().status == core::step_status::parked)
        changes.parked.push_back(to_park(work, "attempts_exhausted", why));
    commit(changes);
}

void executor::snooze(step_delivery const& work, std::chrono::milliseconds wait)
{
    ports::claim_answer claimed;
    if (!claim_to_try_again(work, claimed)) return;
    try_again(work, {claimed.attempts - 1, 1, "snoozed", std::max(wait, 1ms)});
}

// The record of what was tried and the message that will try again commit together.
void executor::try_again(step_delivery const& work, next_try const& next)
{
    auto again = work.envelope;
    again.attempt = next.attempts_made + 1;
    again.snoozes = work.envelope.turn() + 1 - again.attempt;
    set_step_deadline(work, again);
    auto const wait = core::wait_within(again.deadline(), store_.claimed_at(), next.wait);

    ports::changes changes;
    changes.records.push_back({again.saga, work.key().guarded_step(), core::step_status::retrying, next.attempts_made,
                               next.snoozes_added, next.why});
    changes.messages.push_back(to_enqueue(again, work.delivery->message.body, wait));
    add_report(changes, work.envelope, service_,
               {core::step_status::retrying, next.attempts_made, core::saga_state::running, false, next.why,
                store_.claimed_at()});
    commit(changes);
}

// The step's deadline counts from its first try here. Whoever sent the message does not know this service's policy, so
// it is the first message that tries again which carries it.
void executor::set_step_deadline(step_delivery const& work, core::envelope& again) const
{
    auto const longest = work.hosted->policy.deadline;
    if (longest.count() > 0 && !again.step_deadline) again.step_deadline = work.first_tried + longest;
}

// Busy is not done: a copy of the message comes back, and this delivery can be acked.
void executor::come_back_later(step_delivery const& work, std::chrono::milliseconds wait)
{
    store_.rollback();
    ports::changes changes;
    changes.messages.push_back(to_enqueue(work.envelope, work.delivery->message.body, wait));
    store_.write(changes);
    SKALD_FAILPOINT("step.put_back");
}

// A delivery that can't be run any more: parked, with its record, so that the saga shows as stuck and not as running.
void executor::give_up(step_delivery const& work, std::string_view reason, std::string const& why)
{
    auto const claimed = store_.begin(std::array{work.item()}).front();
    if (claimed.verdict == ports::verdict::in_flight || claimed.verdict == ports::verdict::paused)
        return come_back_later(work, in_flight_wait);
    // A step that ended its own transaction has left a record that says `completed` though nothing follows from it.
    bool const ended_itself = reason == "transaction_ended" && claimed.verdict == ports::verdict::duplicate;
    if (!claimed.held && !ended_itself) {
        // What became of the step is decided, and stands; only the delivery is kept.
        store_.rollback();
        return park(*work.delivery, reason, why);
    }

    // One that an operator or its deadline stops need not be run, and so not be kept: the saga goes back from here. But
    // what a step did by itself somebody has to look at first.
    bool const stopped = claimed.cause == ports::cancel_cause::order || claimed.cause == ports::cancel_cause::deadline;
    if (stopped && reason != "transaction_ended")
        return write_no(work, claimed, core::event::cancelled, claimed.reason);
    write_parked(work, claimed, reason, why);
}

void executor::write_parked(step_delivery const& work, ports::claim_answer const& claimed, std::string_view reason,
                            std::string const& why)
{
    // A delivery that was wrong has made no attempt: the right one, if it comes, finds its first still to be made.
    bool const was_wrong = reason == "malformed" || reason == "unknown_step";
    int const attempts = was_wrong ? claimed.attempts - 1 : claimed.attempts;
    ports::changes changes;
    changes.records.push_back(
        {work.envelope.saga, work.key().guarded_step(), core::step_status::parked, attempts, 0, why, was_wrong});
    changes.parked.push_back(to_park(work, reason, why));
    auto told = work.envelope;
    told.reason = why;
    add_report(changes, told, service_,
               {core::step_status::parked, attempts, core::saga_state::stuck, true, why, store_.claimed_at()});
    commit(changes);
    log_.error("step.parked", {{"key", work.key().text()}, {"reason", reason}, {"error", why}});
}

ports::parked_delivery executor::to_park(step_delivery const& work, std::string_view reason,
                                         std::string const& why) const
{
    return {work.envelope.saga,     work.key().guarded_step(), std::string{reason}, why,
            work.delivery->message, work.envelope.attempt};
}

// After a rollback. Another delivery of the same step may have come first: then it has decided, and this one is done.
bool executor::claim_again(step_delivery const& work, ports::claim_answer& claimed)
{
    claimed = store_.begin(std::array{work.item()}).front();
    SKALD_FAILPOINT("step.reclaimed");
    if (claimed.held) return true;
    if (claimed.verdict == ports::verdict::in_flight || claimed.verdict == ports::verdict::paused)
        come_back_later(work, in_flight_wait);
    else store_.rollback();
    return false;
}

// For one more try. A saga that was stopped meanwhile goes back instead.
bool executor::claim_to_try_again(step_delivery const& work, ports::claim_answer& claimed)
{
    if (!claim_again(work, claimed)) return false;
    if (claimed.verdict != ports::verdict::cancelled) return true;
    write_no(work, claimed, core::event::cancelled, claimed.reason);
    return false;
}

}  // namespace skald::runtime
