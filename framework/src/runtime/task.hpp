// A delivery on its way through this process: what it is for, found out once when it was taken, and how it has fared.
#pragma once

#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/instant.hpp"
#include "core/signature.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/policy.hpp"
#include "runtime/registry.hpp"
#include "runtime/step_result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace skald::runtime {

/// For a step. `hosted` is null where this service has no such step; then `task::refused` says so.
struct step_message
{
    core::envelope envelope;
    registered_step const* hosted{};
    core::fingerprint fingerprint;

    core::derived_key key() const { return envelope.key(); }
    bool is_forward() const { return envelope.itinerary.position.direction == core::direction::forward; }

    ports::claim_item item() const
    {
        return {envelope.saga,
                key().guarded_step(),
                fingerprint,
                envelope.fencing_token(),
                envelope.itinerary.past_pivot(),
                envelope.deadline(),
                envelope.home};
    }
};

/// What another service reports of sagas, and the list of ports::changes that takes it in.
struct report_message
{
    std::vector<std::string> ports::changes::*list{};
};

/// An operator's command for one saga.
struct command_message
{
    core::command command;
};

/// None of these, or nobody's word: all that can be done is to keep it, with the reason.
struct unreadable_message
{
    std::string_view reason;
    std::string why;
};

struct task
{
    ports::delivery delivery;
    std::variant<unreadable_message, step_message, report_message, command_message> purpose;
    std::optional<unrunnable> refused{};  // why the step can't be run; the claim decides what becomes of it

    // How it has fared in this process.
    std::uint64_t number{};  // by arrival
    int tries{};             // that were broken off by the same failure, in a row
    std::optional<failure> broken_off_by{};
    int lost{};                                // how often its connection was lost while it was alone
    bool alone{};                              // to be settled in a transaction of its own
    bool locked_out{};                         // it met a lock that was not released while it waited
    core::instant first_tried{};               // by the database's clock
    std::unique_ptr<detail::step_run> read{};  // its data, where that was read before it runs
    std::string serial{};                      // the value that it is serial by; empty: none

    /// It was not settled; `was_alone`: nothing else was in its transaction.
    void put_back(failure why, reaction then, bool was_alone);

    step_message const* step() const { return std::get_if<step_message>(&purpose); }
};

/// Pure. Whatever is wrong with the message is in the answer. With keys, first of all that it is not signed with one.
task route(ports::delivery d, std::string_view service, registry const& steps,
           core::key_ring const* must_be_signed = nullptr);

}  // namespace skald::runtime
