// The classes that a saga's steps derive from. A step is one transaction: its writes, the guard's record and the
// message to the next step commit together or not at all.
//
//     class charge_payment final : public skald::compensatable_step<order> {
//         skald::outcome execute(skald::step_context& ctx, order& o) const override { ... }
//         void compensate(skald::step_context& ctx, order& o) const override { ... }
//     };
//
// `execute` and `compensate` are const: one object serves every lane. A step gets its dependencies through its
// constructor; they must be safe to use from several threads.
//
// Effects: the code may run again (after a fault, a crash, a lost connection), but the writes through `ctx` of only one
// run ever commit. What a step does elsewhere (another connection, HTTP, a file) is not covered.
//
// `data` is the saga's data as the previous step left it; changes to it travel to the next step. Unknown members pass
// through the step unchanged: docs/data.md has the rules.
#pragma once

#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

namespace skald {

/// A step that can be undone. `compensate` runs only if `execute` has committed and the saga compensates, as after a
/// later step's rejection. It can't reject: it succeeds, or throws and is retried; when its attempts are used up the
/// saga is stuck, and an operator sees it.
template <class Data>
class compensatable_step
{
public:
    virtual ~compensatable_step() = default;
    /// Does the work. May reject.
    virtual outcome execute(step_context& ctx, Data& data) const = 0;

    /// Undoes it. `data` is the saga's data at that moment, including changes by later steps; a step that must find
    /// what it did itself looks it up under ctx.saga_key(), or leaves it in `data`.
    virtual void compensate(step_context& ctx, Data& data) const = 0;
};

/// The point of no return: once it commits, the saga will complete; if it rejects, everything before it is undone.
template <class Data>
class pivot_step
{
public:
    virtual ~pivot_step() = default;

    /// Does the work. May reject.
    virtual outcome execute(step_context& ctx, Data& data) const = 0;
};

/// A step after the pivot: may be late, never rejects.
template <class Data>
class retriable_step
{
public:
    virtual ~retriable_step() = default;

    /// Does the work, now or later: done() or snooze(). There is no reject().
    virtual forward_outcome execute(step_context& ctx, Data& data) const = 0;
};

}  // namespace skald
