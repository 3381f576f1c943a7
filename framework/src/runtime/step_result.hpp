// How a run of a step ended.
#pragma once

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
};

using step_result = std::variant<done, rejected, snoozed, failed, unrunnable>;

inline bool is_done(step_result const& e)
{
    return std::holds_alternative<done>(e);
}

}  // namespace skald::runtime
