#include "runtime/executor.hpp"

#include "core/control_order.hpp"
#include "core/deadline.hpp"
#include "core/failpoint.hpp"
#include "core/text.hpp"
#include "runtime/hand_over.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Another transaction has the same key and did not end while the claim waited for it, or the saga is paused.
constexpr auto in_flight_wait = 1s;
constexpr auto paused_wait = 5s;

// How often in a row a step may be rolled back by deadlocks and the like before that counts as an attempt.
constexpr int rollbacks_max = 8;

}  // namespace

/// A delivery that was read as a step's, with everything that is needed to run and settle it.
struct executor::step_delivery
{
    ports::delivery const& delivery;
    core::envelope envelope;
    registered_step const* hosted{};
    core::fingerprint fingerprint;
    core::instant first_tried{};  // by the server's clock

    core::derived_key key() const { return envelope.key(); }

    ports::claim_item item() const
    {
        return {envelope.saga, key().guarded_step(), fingerprint, envelope.turn(), envelope.itinerary.past_pivot(),
                envelope.deadline()};
    }
};

executor::executor(std::string service, registry const& steps, ports::store& store, wakeup& relay, core::logger& log,
                   std::mt19937_64 random)
    : service_{std::move(service)}, steps_{steps}, store_{store}, relay_{relay}, log_{log}, random_{random}
{}

void executor::settle(ports::delivery const& d)
try {
    read_and_settle(d);
}
catch (...) {
    // Whatever went wrong: the next one on this connection must not commit what this one began.
    store_.rollback();
    throw;
}

void executor::read_and_settle(ports::delivery const& d)
{
    if (!d.problem.empty()) return park(d, "malformed", d.problem);
    if (d.message.type == core::progress_type) return note(d, &ports::changes::progress);
    if (d.message.type == core::forget_type) return note(d, &ports::changes::ended);
    if (d.message.type == core::forgotten_type) return note(d, &ports::changes::forgotten);
    if (d.message.type == core::control_type) return take_order(d);

    auto read = core::read_envelope(d.message);
    if (auto const* refused = std::get_if<core::refusal>(&read)) return park(d, "malformed", refused->why);

    SKALD_FAILPOINT("consumer.parsed");
    step_delivery work{d, std::get<core::envelope>(std::move(read)), nullptr, core::fingerprint_of(d.message.body)};
    auto const& step = work.envelope.itinerary.current();
    if (d.given_up) return give_up(work, "delivery_limit", "the broker stopped delivering it: it came back too often");

    work.hosted = steps_.find(work.envelope.definition, step.name);
    if (auto const why = not_hosted(work); !why.empty()) return give_up(work, "unknown_step", why);
    settle_step(work);
}

// Why the delivery's step can't run here; empty if it can.
std::string executor::not_hosted(step_delivery const& work) const
{
    auto const& e = work.envelope;
    auto const& step = e.itinerary.current();
    if (work.hosted == nullptr || step.service != service_)
        return "service " + service_ + " hosts no step " + step.name + " of " + e.definition;
    if (e.version > work.hosted->version)
        return "the message is of version " + std::to_string(e.version) + " of " + e.definition +
               ", and this service knows up to " + std::to_string(work.hosted->version);
    if (step.kind != work.hosted->kind) return "the itinerary gives step " + step.name + " another kind than this service";
    return {};
}

void executor::settle_step(step_delivery& work)
{
    auto const claimed = store_.begin(std::array{work.item()}).front();
    work.first_tried = now();
    switch (claimed.verdict) {
    case ports::verdict::fresh:
    case ports::verdict::retry:
        SKALD_FAILPOINT("step.claimed");
        return run(work, claimed);
    case ports::verdict::duplicate:
        SKALD_FAILPOINT("step.duplicate");
        log_.debug("step.duplicate", {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}});
        return store_.rollback();
    case ports::verdict::in_flight:
        SKALD_MUTANT("busy_is_duplicate", return store_.rollback());
        return come_back_later(work, in_flight_wait);
    case ports::verdict::paused:
        return come_back_later(work, paused_wait);
    case ports::verdict::mismatch:
        store_.rollback();
        return park(work.delivery, "mismatch", "the key was used before with another body");
    case ports::verdict::cancelled:
        store_.rollback();
        if (claimed.held) decide(work, core::event::cancelled, claimed.reason);
        return;
    }
}

void executor::run(step_delivery const& work, ports::claim_answer const& claimed)
{
    std::unique_ptr<detail::step_run> step;
    try {
        step = work.hosted->step->read(work.delivery.message.body);
    }
    catch (data_error const& error) {
        store_.rollback();
        return give_up(work, "malformed", error.what());
    }

    auto const& e = work.envelope;
    std::optional<outcome> ended;
    std::string data;
    step_context ctx{store_.unit(), e.saga.scope, e.saga.key, work.key().text(), claimed.attempts};
    try {
        if (e.itinerary.position.direction == core::direction::forward) ended = step->execute(ctx);
        else step->compensate(ctx);
        data = step->data();
        SKALD_FAILPOINT("step.ran");
    }
    catch (...) {
        auto const met = store_.classify_current();
        if (!roll_back(work)) return;
        return fail_or_throw(work, met);
    }
    if (!ended || ended->is_done()) return finish(work, claimed, ctx, std::move(data));

    if (!roll_back(work)) return;
    if (ended->rejected()) decide(work, core::event::rejected, ended->rejected()->reason);
    else snooze(work, ended->snoozed()->wait);
}

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

// The happy end: everything that follows from the step commits with it.
void executor::finish(step_delivery const& work, ports::claim_answer const& claimed, step_context const& ctx,
                      std::string data)
{
    ports::changes changes;
    add_published(changes, work.envelope.saga, work.envelope.definition, ctx.key(), ctx.published());
    add_transition(changes, work, claimed, core::event::completed, "", std::move(data));
    try {
        commit(changes);
    }
    catch (ports::fault const& met) {
        SKALD_MUTANT("in_doubt_as_committed", if (met.kind == ports::fault_kind::in_doubt) return);
        return fail_or_throw(work, met);
    }
    rolled_back_in_a_row_ = 0;
    log_.debug("step.completed", {{"key", ctx.key()}, {"scope", ctx.scope()}, {"attempt", claimed.attempts}});
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
    add_transition(changes, work, claimed, what, why, work.delivery.message.body);
    commit(changes);
    log_.info(what == core::event::rejected ? "step.rejected" : "step.cancelled",
              {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}, {"reason", why}});
}

// The record of the failed attempt and the message that will try again commit together.
void executor::fail(step_delivery const& work, std::string const& why)
{
    SKALD_MUTANT("retry_in_broker_only", throw ports::fault(ports::fault_kind::connection_lost, why));
    ports::claim_answer claimed;
    if (!claim_again(work, claimed)) return;
    if (claimed.verdict == ports::verdict::cancelled)
        return write_no(work, claimed, core::event::cancelled, claimed.reason);
    auto const& policy = work.hosted->policy;
    bool const exhausted = claimed.attempts >= policy.attempts_max;
    log_.warning(exhausted ? "step.attempts_exhausted" : "step.failed",
                 {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}, {"attempt", claimed.attempts},
                  {"error", why}});

    ports::changes changes;
    if (exhausted) {
        add_transition(changes, work, claimed, core::event::attempts_exhausted, why, work.delivery.message.body);
        if (changes.records.front().status == core::step_status::parked)
            changes.parked.push_back(to_park(work, "attempts_exhausted", why));
        return commit(changes);
    }
    auto again = work.envelope;
    again.attempt = claimed.attempts + 1;
    again.snoozes = work.envelope.turn() + 1 - again.attempt;
    set_step_deadline(work, again);
    core::backoff const backoff{policy.first, policy.longest};
    auto const wait = core::wait_within(again.deadline(), now(), backoff.wait(claimed.attempts, random_));
    changes.records.push_back({again.saga, work.key().guarded_step(), core::step_status::retrying, claimed.attempts, 0, why});
    changes.messages.push_back(to_enqueue(again, work.delivery.message.body, wait));
    add_report(changes, work.envelope, service_,
               {core::step_status::retrying, claimed.attempts, core::saga_state::running, false, why, store_.claimed_at()});
    commit(changes);
}

void executor::snooze(step_delivery const& work, std::chrono::milliseconds wait)
{
    ports::claim_answer claimed;
    if (!claim_again(work, claimed)) return;
    if (claimed.verdict == ports::verdict::cancelled) return write_no(work, claimed, core::event::cancelled, claimed.reason);
    auto again = work.envelope;
    again.attempt = claimed.attempts;
    again.snoozes = work.envelope.turn() + 1 - again.attempt;
    set_step_deadline(work, again);
    ports::changes changes;
    changes.records.push_back(
        {again.saga, work.key().guarded_step(), core::step_status::retrying, claimed.attempts - 1, 1, "snoozed"});
    add_report(changes, work.envelope, service_,
               {core::step_status::retrying, claimed.attempts - 1, core::saga_state::running, false, "snoozed",
                store_.claimed_at()});
    wait = core::wait_within(again.deadline(), now(), std::max(wait, 1ms));
    changes.messages.push_back(to_enqueue(again, work.delivery.message.body, wait));
    commit(changes);
}

// The step's deadline counts from its first try here. Whoever sent the message does not know this service's policy, so it
// is the first message that tries again which carries it.
void executor::set_step_deadline(step_delivery const& work, core::envelope& again) const
{
    auto const longest = work.hosted->policy.deadline;
    if (longest.count() > 0 && !again.step_deadline) again.step_deadline = work.first_tried + longest;
}

core::instant executor::now() const
{
    return core::parse_instant(store_.claimed_at()).value();
}

// Busy is not done: a copy of the message comes back, and this delivery can be acked.
void executor::come_back_later(step_delivery const& work, std::chrono::milliseconds wait)
{
    store_.rollback();
    ports::changes changes;
    changes.messages.push_back(to_enqueue(work.envelope, work.delivery.message.body, wait));
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
        return park(work.delivery, reason, why);
    }

    // One that an operator or its deadline stops need not be run, and so not be kept: the saga goes back from here. But what
    // a step did by itself somebody has to look at first.
    bool const stopped = claimed.cause == ports::cancel_cause::order || claimed.cause == ports::cancel_cause::deadline;
    if (stopped && reason != "transaction_ended") return write_no(work, claimed, core::event::cancelled, claimed.reason);

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

// What another service tells of sagas, as one array: taken in whole, or parked.
void executor::note(ports::delivery const& d, std::vector<std::string> ports::changes::*told)
try {
    ports::changes changes;
    (changes.*told).push_back(detail::parse_checked(d.message.body).dump());
    store_.write(changes);
    SKALD_FAILPOINT("progress.noted");
}
catch (data_error const& error) {
    park(d, "malformed", error.what());
}
catch (ports::fault const& met) {
    if (met.kind != ports::fault_kind::broken) throw;
    park(d, "malformed", met.what());
}

// An order for one saga, from its home. Whatever waits here for it is awake afterwards.
void executor::take_order(ports::delivery const& d)
{
    auto order = core::read_control_order(d.message.body);
    if (auto const* bad = std::get_if<core::bad_order>(&order)) return park(d, "malformed", bad->why);
    ports::changes changes;
    changes.orders.push_back(std::get<core::control_order>(std::move(order)));
    store_.write(changes);
    relay_.notify();
    log_.info("saga.order_taken", {{"id", d.message.id}});
}

void executor::park(ports::delivery const& d, std::string_view reason, std::string const& why)
{
    ports::parked_delivery parked{{}, {}, std::string{reason}, why, d.message, 0};
    auto const text = core::find_header(d.message.headers, core::header::idempotency_key).value_or(std::string_view{});
    if (auto const key = core::parse_derived_key(text)) {
        parked.saga = {std::string{core::find_header(d.message.headers, core::header::scope).value_or(std::string_view{})},
                       key->key};
        parked.step = key->guarded_step();
    }
    ports::changes changes;
    changes.parked.push_back(std::move(parked));
    store_.write(changes);
    SKALD_FAILPOINT("delivery.parked");
    log_.error("delivery.parked", {{"key", text}, {"type", d.message.type}, {"reason", reason}, {"error", why}});
}

ports::parked_delivery executor::to_park(step_delivery const& work, std::string_view reason, std::string const& why) const
{
    return {work.envelope.saga, work.key().guarded_step(), std::string{reason}, why, work.delivery.message,
            work.envelope.attempt};
}

// What the theory says follows from `what`, written down: the record, the next message, and word to the home.
void executor::add_transition(ports::changes& changes, step_delivery const& work, ports::claim_answer const& claimed,
                              core::event what, std::string const& why, std::string body)
{
    auto const& e = work.envelope;
    auto const then = core::next(e.itinerary, what);

    // A fresh record says `completed` already.
    if (then.recorded != core::step_status::completed || claimed.verdict != ports::verdict::fresh)
        changes.records.push_back({e.saga, work.key().guarded_step(), then.recorded, claimed.attempts, 0, why});

    auto told = e;
    if (told.reason.empty()) told.reason = core::storable_text(why);
    if (then.next) changes.messages.push_back(to_enqueue(told.at(*then.next), std::move(body)));

    bool const news = then.saga != core::saga_state::running || claimed.verdict != ports::verdict::fresh;
    add_report(changes, told, service_, {then.recorded, claimed.attempts, then.saga, news, why, store_.claimed_at()});
}

// After a rollback. Another delivery of the same step may have come first: then it has decided, and this one is done.
bool executor::claim_again(step_delivery const& work, ports::claim_answer& claimed)
{
    claimed = store_.begin(std::array{work.item()}).front();
    SKALD_FAILPOINT("step.reclaimed");
    if (claimed.held) return true;
    if (claimed.verdict == ports::verdict::in_flight || claimed.verdict == ports::verdict::paused)
        come_back_later(work, in_flight_wait);
    else
        store_.rollback();
    return false;
}

void executor::commit(ports::changes const& changes)
{
    SKALD_FAILPOINT("step.before_commit");
    store_.commit(changes);
    SKALD_FAILPOINT("step.committed");
    // After COMMIT, and only then.
    if (!changes.messages.empty()) relay_.notify();
}

}  // namespace skald::runtime
