// Steps whose work is done by another system: a card is charged, a parcel is booked.
//
//     class capture_payment final : public skald::external_step<order, receipt>
//     {
//         skald::outcome prepare(skald::step_context& ctx, order& o) const override;                // transaction 1
//         receipt call(skald::call_context& ctx, order const& o) const override;                    // no transaction
//         skald::probe<receipt> look(skald::call_context& ctx, order const& o) const override;      // no transaction
//         skald::outcome settle(skald::step_context& ctx, order& o, receipt const& r) const override;  // transaction 2
//     };
//
// Transaction 1 commits the intent, and the delivery is acked. Then `call` runs on a thread that holds no lane and no
// database connection, as long as it takes. Transaction 2 records what came of it, with the message to the next step.
//
// If it is not known what a call has done (its process died, or it threw), `look` is asked before anything else, and
// `call` is not called again before `look` has said did_not_happen(). While it says unknown(), nothing happens; after
// call_options::unknown_after the saga is shown as `unknown`, until `look` or an operator (`skald saga resolve`) knows.
// docs/external-steps.md explains it with an example; ADR 0041 why.
#pragma once

#include <skald/call.hpp>
#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

namespace skald {

/// For a pivot, or for a compensatable step that is hosted together with its compensation.
/// `Data` is the saga's; `Result` is what the other system answers: nlohmann/json converts both.
template <class Data, class Result>
class external_step
{
public:
    using data_type = Data;      // of the saga
    using result_type = Result;  // of the call
    virtual ~external_step() = default;

    /// Transaction 1: rows that say what is about to be done, or a rejection. May be called again only if it did not
    /// commit, or if the step was parked and put back.
    virtual outcome prepare(step_context& ctx, Data& data) const = 0;

    /// Does it, with ctx.key() as the idempotency key. Give it a time limit. A "no" of the other system, as a card that
    /// is declined, is a result; settle() rejects then.
    virtual Result call(call_context& ctx, Data const& data) const = 0;

    /// What has become of an earlier call. Must not do anything; an exception counts as unknown().
    virtual probe<Result> look(call_context& ctx, Data const& data) const = 0;

    /// Transaction 2: what the result means here: rows, or a rejection, which says that nothing is to be undone there.
    /// If it throws, it is called again until it succeeds: what has happened can't be forgotten.
    virtual outcome settle(step_context& ctx, Data& data, Result const& result) const = 0;

    /// In the transaction that records a rejection, a cancellation or that its attempts are used up: undoes what
    /// prepare() wrote. The call has not happened, or settle() has rejected.
    virtual void abandon(step_context&, Data&) const {}
};

/// The same after the pivot: without a rejection.
template <class Data, class Result>
class external_retriable_step
{
public:
    using data_type = Data;      // of the saga
    using result_type = Result;  // of the call
    virtual ~external_retriable_step() = default;

    /// As of external_step, and so are the others.
    virtual forward_outcome prepare(step_context& ctx, Data& data) const = 0;
    /// Likewise.
    virtual Result call(call_context& ctx, Data const& data) const = 0;
    /// Likewise.
    virtual probe<Result> look(call_context& ctx, Data const& data) const = 0;
    /// Likewise.
    virtual forward_outcome settle(step_context& ctx, Data& data, Result const& result) const = 0;
    virtual void abandon(step_context&, Data&) const {}  // it is parked: its attempts are used up
};

/// Undoes an external step that has completed, in a transaction.
template <class Data>
class compensation
{
public:
    using data_type = Data;  // of the saga
    virtual ~compensation() = default;
    /// As of compensatable_step.
    virtual void compensate(step_context& ctx, Data& data) const = 0;
};

/// Undoes an external step that has completed, by a call: a refund.
template <class Data, class Result>
class external_compensation
{
public:
    using data_type = Data;      // of the saga
    using result_type = Result;  // of the call
    virtual ~external_compensation() = default;

    /// As of external_step, without a rejection; and so are the others.
    virtual void prepare(step_context&, Data&) const {}
    /// Likewise.
    virtual Result call(call_context& ctx, Data const& data) const = 0;
    /// Likewise.
    virtual probe<Result> look(call_context& ctx, Data const& data) const = 0;
    /// Likewise.
    virtual void settle(step_context& ctx, Data& data, Result const& result) const = 0;
    virtual void abandon(step_context&, Data&) const {}  // it is parked: its attempts are used up
};

}  // namespace skald
