// What a step does between its two transactions, without its types, as the runtime sees it.
#pragma once

#include <skald/call.hpp>
#include <skald/step_context.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace skald::detail {

class step_run;

/// What look() said, with the result as JSON.
struct look_result
{
    enum class answer { happened, did_not_happen, unknown };
    answer what{};
    std::string text{};  // of `happened` the result; of `unknown` why
};

class external_work
{
public:
    virtual ~external_work() = default;

    /// Whether there is something to call; otherwise it waits.
    virtual bool is_call() const = 0;

    /// Whether it waits for a signal, and not only for a time.
    virtual bool takes_signal() const = 0;

    /// Why this JSON is no signal that it waits for; nothing if it is one, or it waits for none.
    virtual std::optional<std::string> why_no_signal(std::string_view json) const = 0;

    /// How long it waits if no signal comes. 0 for a call.
    virtual std::chrono::milliseconds due_in(std::string_view body, step_context const& ctx) const = 0;

    /// The result as JSON. Throws what the user's code throws, and data_error.
    virtual std::string call(call_context& ctx, std::string_view body) const = 0;
    virtual look_result look(call_context& ctx, std::string_view body) const = 0;

    /// For the second transaction: execute() settles. `answer` is the result or the signal, as JSON; nothing if no
    /// signal came in time. Throws data_error.
    virtual std::unique_ptr<step_run> settle(std::string_view body, std::optional<std::string> const& answer) const = 0;

    /// The same for an end without a result: execute() abandons.
    virtual std::unique_ptr<step_run> abandon(std::string_view body) const = 0;
};

}  // namespace skald::detail
