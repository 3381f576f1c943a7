// Steps of two transactions: how the first one ends, and what runs in the second.
#include "runtime/executor.hpp"
#include "runtime/upcasting.hpp"

#include <skald/detail/external_work.hpp>

#include <algorithm>

namespace skald::runtime {

// Of a step that is done; or whose first transaction is.
step_result executor::end_of_first(step_message const& step, std::string const& received, detail::step_run& run,
                                   step_context const& ctx)
{
    auto data = run.data();
    auto const* const external = step.hosted->step->external(step.is_forward());
    if (external == nullptr) {
        auto const version = write_back(step, received, data);
        return done{std::move(data), ctx.published(), {}, version};
    }
    auto const due_in = std::max(external->due_in(data, ctx), std::chrono::milliseconds{0});
    auto const version = write_back(step, received, data);
    return started{std::move(data), ctx.published(), external->is_call(), due_in, version};
}

// Throws what the step throws.
step_result executor::run_second(task& t, group_trace& trace, std::size_t member, int number)
{
    auto const& step = *t.step();
    auto const& second = *t.second;
    if (auto const* const on = std::get_if<postponed>(&second.end)) return *on;
    auto const& external = *step.hosted->step->external(step.is_forward());
    auto const* const answer = std::get_if<second_transaction::answer>(&second.end);
    auto const& received = t.delivery.message.body;
    auto const made = upcast(step, received);
    auto const& body = made ? *made : received;
    auto const run = answer != nullptr ? external.settle(body, answer->json) : external.abandon(body);
    auto const timed = trace.run(member);
    step_context ctx{store_.unit(), step.envelope.saga.scope, step.envelope.saga.key, step.key().text(),
                     number,        step.envelope.trace};
    auto const ended = run->execute(ctx);
    if (answer == nullptr) return std::get<given_up>(second.end);
    if (ended.rejected()) return rejected{ended.rejected()->reason};
    if (ended.snoozed()) return snoozed{ended.snoozed()->wait};
    done end{run->data(), ctx.published()};
    end.version = write_back(step, received, end.data);
    return end;
}

// What the first transaction wrote is undone in the one that records the rejection.
bool executor::settle_rejected(task& t, std::optional<step_result>& end)
{
    auto* const why = std::get_if<rejected>(&*end);
    if (why == nullptr) return false;
    t.second->end = given_up{core::event::rejected, std::move(why->reason)};
    end.reset();
    return true;
}

}  // namespace skald::runtime
