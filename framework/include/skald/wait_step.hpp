// Steps that wait: for a person or another system to say something, or for a time. A saga that waits holds nothing: no
// lane, no connection and no message under way.
#pragma once

#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

#include <chrono>

namespace skald {

/// Waits for a signal, which has the step's name: `POST /sagas/{key}/signals/{step}`, `skald saga signal`, or
/// skald.send_signal() in SQL, all at the saga's home; in the database of the step's service, skald.signal() in SQL.
/// One that came before the step is kept for it. `Signal` is the type of its body.
template <class Data, class Signal>
class wait_step
{
public:
    using data_type = Data;      // of the saga
    using signal_type = Signal;  // the signal's body
    virtual ~wait_step() = default;

    /// A transaction of its own, before the step waits: rows that say so (a task in somebody's list), or a rejection.
    virtual outcome begin(step_context&, Data&) const { return done(); }

    /// How long it waits, from begin() on; by the database's clock.
    virtual std::chrono::milliseconds timeout(Data const& data) const = 0;

    /// The signal is there.
    virtual outcome arrived(step_context& ctx, Data& data, Signal const& signal) const = 0;

    /// It did not come in time: goes on, rejects, or waits longer (snooze).
    virtual outcome timed_out(step_context& ctx, Data& data) const = 0;

    /// In the transaction that records a rejection or a cancellation: undoes what begin() wrote.
    virtual void abandon(step_context&, Data&) const {}
};

/// Waits until a time: a station of the saga like any other.
template <class Data>
class sleep_step
{
public:
    using data_type = Data;  // of the saga
    virtual ~sleep_step() = default;

    /// When the saga goes on. One that has passed: at once.
    virtual std::chrono::sys_time<std::chrono::milliseconds> until(Data const& data) const = 0;
};

}  // namespace skald
