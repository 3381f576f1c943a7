// A delivery on its way through this process: what it is for, determined once when it was taken, and how it has fared.
#pragma once

#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/foreign_message.hpp"
#include "core/instant.hpp"
#include "core/signature.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/policy.hpp"
#include "runtime/registry.hpp"
#include "runtime/step_result.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace skald::runtime {

/// For a step or a message handler. `hosted` is null if this service has no such step; then `task::refused` says so.
struct step_message
{
    core::envelope envelope;
    registered_step const* hosted{};
    core::fingerprint fingerprint;
    std::optional<std::string> payload{};  // of a message that belongs to no saga; nothing: the body as received
    std::string body{};                    // of such a message whose body is kept elsewhere, while it runs

    bool is_message() const { return !envelope.is_of_saga(); }
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
                is_message() ? std::string{core::no_saga} : envelope.home};
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

/// None of these, or not from a trusted sender: it can only be parked, with the reason.
struct unreadable_message
{
    std::string_view reason;
    std::string why;
    std::chrono::milliseconds for_deploy{};  // before that it waits as long for a process that has its handler
};

/// For the second transaction of a started step.
struct second_transaction
{
    /// What it was waiting for is there: settle() runs. Nothing: no signal came in time.
    struct answer
    {
        std::optional<std::string> json;
    };

    ports::started_id id;
    bool is_in_doubt{};  // if this can't be recorded, the other side is asked again
    int tries{};         // that have failed before
    std::variant<answer, given_up, postponed> end;
};

struct task
{
    ports::delivery delivery;
    std::variant<unreadable_message, step_message, report_message, command_message> purpose;
    std::optional<second_transaction> second{};
    std::optional<unrunnable> refused{};  // why the step can't be run; the claim decides what happens to it

    std::optional<core::body_reference> kept{};  // its body, which is read when it runs; the delivery has none

    // Its history in this process.
    std::uint64_t number{};  // by arrival
    int tries{};             // in a row that failed for the same reason
    std::optional<failure> rolled_back_by{};
    int lost{};                                // how often its connection was lost while it was alone
    int suspicion{};                           // of those that came back, who has less goes first
    bool alone{};                              // to be run in a transaction of its own
    bool locked_out{};                         // it met a lock that was not released while it waited
    core::instant first_tried{};               // by the database's clock
    std::unique_ptr<detail::step_run> read{};  // its data, if it was read before the run
    std::string serial{};                      // the value that it is serialized by; empty: none

    /// It was not processed; `was_alone`: nothing else was in its transaction.
    void put_back(failure why, reaction then, bool was_alone);

    step_message const* step() const { return std::get_if<step_message>(&purpose); }

    /// A message for a handler whose body is kept elsewhere and was not read yet: its key is not known.
    bool is_unread() const { return kept && step() != nullptr && step()->is_message() && !step()->payload; }

    /// It runs later, if at all: then its body is read again.
    void forget_body();

    /// What its step, or its handler, reads, unless that is kept elsewhere.
    std::string const& data() const
    {
        auto const* const of = step();
        return of != nullptr && of->payload ? *of->payload : delivery.message.body;
    }
};

/// Pure. Whatever is wrong with the message is in the result. With keys, a wrong or missing signature comes first.
task route(ports::delivery d, std::string_view service, registry const& steps,
           core::key_ring const* must_be_signed = nullptr);

/// Of a task that is unread: finds its key now that its body was read. It may turn out to be unreadable. Pure.
void take_body(task& t, std::string body);

}  // namespace skald::runtime
