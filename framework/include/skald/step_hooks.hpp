// What runs around every step of a service: for its own metrics, its own context, or a setting of the session.
#pragma once

#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

#include <functional>
#include <string_view>

namespace skald {

/// The step that a hook is called for. Lifetime: the call.
struct step_call
{
    std::string_view definition;  // "place-order"
    std::string_view step;        // "charge-payment"
    bool is_compensation{};       // what undoes it rather than the step itself
};

/// Functions that are called around execute() and compensate() of every step of a service; each may be empty. For a
/// batch_step's execute_batch() they are called for each of its deliveries. For a step of two transactions they are
/// called around the code of each: prepare() or begin(); and settle(), arrived() or timed_out(), or abandon(), whose
/// outcome is done(), since what `before` sets is needed there too. Not around call() and look(): no transaction.
///
/// Threads: any lane, several at a time, as for execute().
struct step_hooks
{
    /// In the step's transaction, before its code: `ctx.sql("SET LOCAL ...")` is in effect for the step. What it throws
    /// counts as thrown by the step.
    std::function<void(step_call const&, step_context& ctx)> before;

    /// In the same transaction, after its code has returned: it may still fail to commit, and then both run again. The
    /// outcome of a compensation is done(). What it throws counts as thrown by the step.
    std::function<void(step_call const&, step_context& ctx, outcome const& ended)> after;

    /// After its code, or one of the other two, has thrown `error`; what the step wrote is not committed. `ctx` can run
    /// no SQL any more. Must not throw.
    std::function<void(step_call const&, step_context const& ctx, std::string_view error)> on_failure;
};

}  // namespace skald
