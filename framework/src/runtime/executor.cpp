// The happy way of a step, as a column of verbs: read, claim, run, finish. executor_failures.cpp has the others.
#include "runtime/step_delivery.hpp"

#include "core/failpoint.hpp"
#include "core/text.hpp"
#include "runtime/consequences.hpp"

#include <skald/errors.hpp>

#include <array>
#include <memory>
#include <utility>

namespace skald::runtime {

executor::executor(std::string service, registry const& steps, ports::store& store, outbound& out, core::logger& log,
                   std::mt19937_64 random)
    : service_{std::move(service)}, steps_{steps}, store_{store}, out_{out}, log_{log}, random_{random}
{}

void executor::settle(ports::delivery const& d)
try {
    read_and_settle(d);
    SKALD_FAILPOINT_IF(!leaving_.empty(), "step.committed");
    hand_over();
}
catch (...) {
    // Whatever went wrong: the next one on this connection must not commit what this one began.
    store_.rollback();
    leaving_.clear();
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
    auto work = delivery_of(d, std::get<core::envelope>(std::move(read)));
    if (d.given_up) return give_up(work, "delivery_limit", "the broker stopped delivering it: it came back too often");
    if (auto const why = not_hosted(work); !why.empty()) return give_up(work, "unknown_step", why);
    settle_step(work, {});
}

executor::step_delivery executor::delivery_of(ports::delivery const& d, core::envelope e) const
{
    auto const* const hosted = steps_.find(e.definition, e.itinerary.current().name);
    return {&d, std::move(e), hosted, core::fingerprint_of(d.message.body), {}};
}

// A step of this service's, and nothing unusual about the delivery; else nothing.
std::optional<executor::step_delivery> executor::read_step(ports::delivery const& d) const
{
    if (!d.problem.empty() || d.given_up || d.message.type.starts_with("skald.")) return {};
    auto read = core::read_envelope(d.message);
    if (!std::holds_alternative<core::envelope>(read)) return {};
    auto work = delivery_of(d, std::get<core::envelope>(std::move(read)));
    if (!not_hosted(work).empty()) return {};
    return work;
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
    if (step.kind != work.hosted->kind)
        return "the itinerary gives step " + step.name + " another kind than this service";
    return {};
}

void executor::settle_step(step_delivery& work, std::optional<std::chrono::milliseconds> wait)
{
    auto const claimed = store_.begin(std::array{work.item()}, wait).front();
    work.first_tried = store_.claimed_at();
    switch (claimed.verdict) {
    case ports::verdict::fresh:
    case ports::verdict::retry: SKALD_FAILPOINT("step.claimed"); return run(work, claimed);
    case ports::verdict::duplicate:
        SKALD_FAILPOINT("step.duplicate");
        log_.debug("step.duplicate", {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}});
        return store_.rollback();
    case ports::verdict::in_flight:
        SKALD_MUTANT("busy_is_duplicate", return store_.rollback());
        return come_back_later(work, in_flight_wait);
    case ports::verdict::paused: return come_back_later(work, paused_wait);
    case ports::verdict::mismatch:
        store_.rollback();
        return park(*work.delivery, "mismatch", "the key was used before with another body");
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
        step = work.hosted->step->read(work.delivery->message.body);
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
        learn(*work.hosted, true);
        if (!roll_back(work)) return;
        return fail_or_throw(work, met);
    }
    bool const is_done = !ended || ended->is_done();
    learn(*work.hosted, !is_done);
    if (is_done) return finish(work, claimed, ctx, std::move(data));

    if (!roll_back(work)) return;
    if (ended->rejected()) decide(work, core::event::rejected, ended->rejected()->reason);
    else snooze(work, ended->snoozed()->wait);
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
        SKALD_MUTANT(
            "in_doubt_as_committed", if (met.kind == ports::fault_kind::in_doubt) { return; });
        return fail_or_throw(work, met);
    }
    rolled_back_in_a_row_ = 0;
    log_.debug("step.completed", {{"key", ctx.key()}, {"scope", ctx.scope()}, {"attempt", claimed.attempts}});
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

// Of a delivery that is settled in turn with others this ends only its savepoint, so what follows does not leave yet.
void executor::commit(ports::changes& changes)
{
    SKALD_FAILPOINT_IF(!store_.batch_is_open(), "step.before_commit");
    auto departure = out_.prepare(store_, changes);
    SKALD_MUTANT("handed_over_early", departure.hand_over(*std::make_unique<ports::changes>(changes)));
    store_.commit(changes);
    leaving_.push_back({std::move(departure), std::move(changes)});
}

// To be called once the transaction has committed, and only then.
void executor::hand_over()
{
    for (auto& [departure, committed] : std::exchange(leaving_, {})) departure.hand_over(committed);
}

}  // namespace skald::runtime
