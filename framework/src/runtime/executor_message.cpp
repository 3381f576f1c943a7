// The run of a message handler: what differs from that of a step.
#include "runtime/executor.hpp"

#include "ports/body_store.hpp"

#include <skald/message_handler.hpp>

#include <utility>

namespace skald::runtime {

// Before its claim: its key may be in its body.
std::optional<run_result::setback> executor::read_message(task& t)
try {
    take_body(t, store_.read_body(*t.kept));
    return {};
}
catch (ports::body_fault const& error) {
    t.purpose = unreadable_message{error.reason(), error.what()};
    return {};
}
catch (ports::fault const& met) {
    store_.rollback();
    return run_result::setback{failure_of(met, false), reaction::again, met.what()};
}

// Throws what the handler throws.
step_result executor::run_message(task const& t, detail::step_run& run, int number)
{
    auto const& step = *t.step();
    auto received = core::as_received(t.delivery.message, t.data());
    if (t.kept) received.body = step.body;
    message_context ctx{
        store_.unit(), step.envelope.saga.scope, step.envelope.saga.key, step.key().text(), number, step.envelope.trace,
        received};
    auto const ended = run.execute(ctx);
    if (ended.rejected()) return rejected{ended.rejected()->reason};
    if (ended.snoozed()) return snoozed{ended.snoozed()->wait};
    return done{"", ctx.published(), ctx.replied()};
}

}  // namespace skald::runtime
