// The classes that a saga's steps derive from. A step is one transaction: its writes, the guard's record and the
// message to the next step commit together or not at all.
//
//     class charge_payment final : public skald::compensatable_step<order> {
//         skald::outcome execute(skald::step_context& ctx, order& o) const override { ... }
//         void compensate(skald::step_context& ctx, order& o) const override { ... }
//     };
//
// `execute` and `compensate` are const: one object serves every lane. What a step needs it gets through its
// constructor, and it must be safe to use from several threads.
//
// Once in effect: the code may run again (after a fault, a crash, a lost connection), but only one run's writes through
// `ctx` ever commit. What a step does elsewhere (another connection, HTTP, a file) is not covered.
//
// `data` is the saga's data as the step before left it; changes to it travel to the next step. What its type does not
// know passes through the step unchanged: docs/data.md has the rules.
#pragma once

#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

namespace skald {

/// A step that can be undone. `compensate` runs after `execute` committed, when a later step said no, and only then. It
/// has no way to say no: it succeeds, or throws and is tried again, and at last the saga is
/// stuck and an operator sees it.
template <class Data>
class compensatable_step
{
public:
    virtual ~compensatable_step() = default;
    /// Does the work. May say no.
    virtual outcome execute(step_context& ctx, Data& data) const = 0;

    /// Undoes it. `data` is what the saga has at that moment, with what later steps have changed; a step that must find
    /// what it did itself looks for it under ctx.saga_key(), or leaves it in `data`.
    virtual void compensate(step_context& ctx, Data& data) const = 0;
};

/// The point of no return: when it commits, the saga will complete; when it rejects, everything before it is undone.
template <class Data>
class pivot_step
{
public:
    virtual ~pivot_step() = default;

    /// Does the work. May say no.
    virtual outcome execute(step_context& ctx, Data& data) const = 0;
};

/// A step behind the pivot: may be late, never says no.
template <class Data>
class retriable_step
{
public:
    virtual ~retriable_step() = default;

    /// Does the work, now or later: done() or snooze(). There is no reject().
    virtual forward_outcome execute(step_context& ctx, Data& data) const = 0;
};

}  // namespace skald
