// How a run of a step ended.
#pragma once

#include "core/transition.hpp"
#include "ports/started.hpp"

#include <skald/transaction_context.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace skald::runtime {

struct done
{
    std::string data;  // for the next step
    std::vector<detail::published_message> published;
    std::optional<std::string> reply{};  // a message handler's
    int version{};                       // of which the data is from now on; 0: of the same as it came
};

struct rejected
{
    std::string reason;
};

struct snoozed
{
    std::chrono::milliseconds wait{};
};

/// It threw, or its SQL failed: an attempt.
struct failed
{
    std::string why;
};

/// It can't be run, now or ever: to be parked.
struct unrunnable
{
    std::string_view reason;  // one that the constraint reason_is_known allows
    std::string why;
    std::chrono::milliseconds for_deploy{};  // how long it waits before that, for a process that has its step
};

/// Its first transaction is done: what follows is not a transaction.
struct started
{
    std::string data;
    std::vector<detail::published_message> published;
    bool is_call{};
    std::chrono::milliseconds due_in{};
    int version{};  // as above
};

/// A started step that ends without a result; what its first transaction wrote is undone.
struct given_up
{
    core::event event{};  // not `completed`
    std::string why;
};

/// A started step that goes on: what people see of it has changed.
struct postponed
{
    core::step_status status{};  // started, or unknown
    bool is_attempt{};           // an attempt has failed
    ports::started_release release{};
    bool is_news{true};  // it was not so before: worth a line of the log
};

using step_result = std::variant<done, rejected, snoozed, failed, unrunnable, started, given_up, postponed>;

/// Whether what the step wrote stays.
inline bool keeps_writes(step_result const& e)
{
    return std::holds_alternative<done>(e) || std::holds_alternative<started>(e) ||
           std::holds_alternative<given_up>(e) || std::holds_alternative<postponed>(e);
}

}  // namespace skald::runtime
