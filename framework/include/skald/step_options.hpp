// How a step runs: its retries, how many deliveries share a transaction, and what must not run at the same time.
#pragma once

#include <skald/call.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <typeinfo>

namespace skald {

/// How often, at what intervals and for how long a step that throws is retried. The wait before a try is uniform
/// between 0 and a ceiling that doubles from `first` to `longest`: full jitter, from Brooker, "Exponential Backoff And
/// Jitter" (AWS Architecture Blog, 2015). Attempts are counted in the database, together with the message that tries
/// again.
struct retry
{
    int attempts_max{8};                        // from 1; then compensation, or parked if it can't compensate
    std::chrono::milliseconds first{200};       // the ceiling of the first wait
    std::chrono::milliseconds longest{30'000};  // the highest ceiling

    /// The longest time from the step's first try to its outcome, retries and snoozes included, by the server's clock;
    /// 0: none. A step that has no outcome by then does not begin another try, and the saga compensates. Only for a
    /// step that may reject: a compensatable step or a pivot. A compensation has no deadline.
    std::chrono::milliseconds deadline{0};
};

/// A member of the saga's data; deliveries with equal values of it are not to run at the same time: `&order::sku`,
/// where a step updates the row of that sku.
class serial_key
{
public:
    /// None.
    serial_key() = default;

    /// The member is text or an integer.
    template <class Data, class Value>
    serial_key(Value Data::*member)  // NOLINT(google-explicit-constructor): `.serial_by = &order::sku` says it all
        : value_of_{[member](void const* data) { return text(static_cast<Data const*>(data)->*member); }},
          data_{&typeid(Data)}
    {}

    /// Whether there is one.
    explicit operator bool() const { return data_ != nullptr; }

    /// Whether `Data` has the member.
    template <class Data>
    bool is_of() const
    {
        return *data_ == typeid(Data);
    }

    /// For Skald: `data` is an object of the type that has the member.
    std::string value_of(void const* data) const { return value_of_(data); }

private:
    static std::string text(std::string const& value) { return value; }
    template <std::integral Number>
    static std::string text(Number value)
    {
        return std::to_string(value);
    }

    std::function<std::string(void const*)> value_of_;
    std::type_info const* data_{};
};

/// What service::host() takes beside the step. The defaults suit most steps; docs/batches.md and docs/contention.md
/// explain when others are better.
struct step_options
{
    skald::retry retry{};  // of the step and of its compensation

    /// How many deliveries may share a transaction: at most the process's own limit (SKALD_BATCH_MAX). 1: each has its
    /// own. No lane waits for more to arrive.
    std::size_t batch{64};

    std::size_t concurrency{0};  // lanes of a process that run the step or its compensation at a time; 0: all of them

    /// How many deliveries in addition to SKALD_PREFETCH may be out because of this step: room for those of a slow
    /// step, so that those of other steps still arrive. At most 10'000.
    std::size_t prefetch{0};

    /// Deliveries with equal values never run at the same time in this process, and a transaction runs its deliveries
    /// in the order of these values, so that two processes lock in the same order. It is a hint: without it Skald
    /// determines the limits of a step whose transactions conflict (docs/contention.md).
    serial_key serial_by{};

    call_options call{};  // of an external step and of its compensation, if that is one
};

}  // namespace skald
