// What follows from a step for others, to be committed with it: the next message, the messages that the user published,
// and the report to the saga's home. Pure: it only fills in the changes.
#pragma once

#include "core/envelope.hpp"
#include "core/transition.hpp"
#include "ports/store.hpp"
#include "runtime/task.hpp"

#include <skald/transaction_context.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace skald::runtime {

/// The message for the envelope's step, to be sent after `delay`.
ports::enqueued to_enqueue(core::envelope const& e, std::string body, std::chrono::milliseconds delay = {});

/// The user's own messages, under keys derived from `key`.
void add_published(ports::changes& changes, core::saga_id const& saga, std::string_view definition,
                   std::string const& key, trace_context const& trace,
                   std::vector<detail::published_message> const& published);

/// The outcome of a step, for the saga's home.
struct step_report
{
    core::step_status status{};
    int attempts{};
    core::saga_state saga{};
    bool saga_may_have_changed{};
    std::string error;
    core::instant at;        // by the server's clock
    bool is_recorded{true};  // in the guard's record of the step, which the home reads if it is in its own database
};

/// In the home's own database the saga's row changes in the same transaction; elsewhere a progress message is sent to
/// the home.
void add_report(ports::changes& changes, core::envelope const& e, std::string_view service, step_report const& report);

/// Merges the reports of several steps to one home into one message.
void merge_reports(ports::changes& changes);

/// Joins JSON arrays, none of them empty, into one.
std::string join_arrays(std::vector<std::string> const& arrays);

/// The parked row of a delivery that belongs to no step, or no longer does.
ports::parked_delivery to_park(task const& t, std::string_view reason, std::string const& why);

}  // namespace skald::runtime
