// The run of a message handler: what differs from that of a step.
#include "runtime/executor.hpp"

#include <skald/message_handler.hpp>

#include <utility>

namespace skald::runtime {

// Throws what the handler throws.
step_result executor::run_message(task const& t, detail::step_run& run, int number)
{
    auto const& step = *t.step();
    auto const received = core::as_received(t.delivery.message, t.data());
    message_context ctx{
        store_.unit(), step.envelope.saga.scope, step.envelope.saga.key, step.key().text(), number, step.envelope.trace,
        received};
    auto const ended = run.execute(ctx);
    if (ended.rejected()) return rejected{ended.rejected()->reason};
    if (ended.snoozed()) return snoozed{ended.snoozed()->wait};
    return done{"", ctx.published(), ctx.replied()};
}

}  // namespace skald::runtime
