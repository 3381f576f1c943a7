// The row of a started step: as it begins, and as it is given back.
#pragma once

#include "runtime/task.hpp"

#include <skald/detail/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace skald::runtime {

/// Its message has the data that the first transaction left.
inline ports::new_started row_to_start(task const& t, started&& how)
{
    using std::chrono::milliseconds;
    auto const& step = *t.step();
    auto const& options = step.hosted->options;
    auto again = step.envelope;
    if (how.version > 0) again.version = how.version;
    if (options.retry.deadline.count() > 0 && !again.step_deadline)
        again.step_deadline = t.first_tried + options.retry.deadline;
    return {again.saga,
            step.key().guarded_step(),
            how.is_call ? ports::started_kind::call : ports::started_kind::wait,
            how.is_call ? options.call.dependency : "",
            options.call.lease,
            options.call.unknown_after,
            std::min<milliseconds>(how.due_in, detail::deadline_max),
            again.deadline(),
            core::write_message(again, std::move(how.data))};
}

/// Where its end could not be recorded yet, or it has snoozed there: with what is known of its end, so that the other
/// side need not be asked again.
inline ports::started_release release_to_settle(second_transaction const& second, std::chrono::milliseconds wait,
                                                std::string const& why, bool is_failure)
{
    using std::chrono::milliseconds;
    auto const* const answer = std::get_if<second_transaction::answer>(&second.end);
    ports::started_release release{second.id, std::clamp<milliseconds>(wait, milliseconds{1}, detail::deadline_max)};
    release.is_in_doubt = second.is_in_doubt;
    release.tries = second.tries + (is_failure ? 1 : 0);
    release.why = why;
    release.waits_on = answer != nullptr && !answer->json && !is_failure;
    constexpr std::size_t kept_result_bytes_max = 1024 * 1024;  // every renewal writes the row again: look() finds more
    if (answer != nullptr && answer->json && second.is_in_doubt && answer->json->size() <= kept_result_bytes_max)
        release.answer = R"({"happened": )" + *answer->json + '}';
    return release;
}

}  // namespace skald::runtime
