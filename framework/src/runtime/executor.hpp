// The executor: settles one delivery in the database, exactly once in effect. Whoever calls it acks afterwards.
//
// The order of things, which is the product: read and check the message; begin and claim; run the step; write what
// follows and commit. See docs/protocol.md, "One step".
#pragma once

#include "core/backoff.hpp"
#include "core/envelope.hpp"
#include "core/log.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/outbound.hpp"
#include "runtime/registry.hpp"

#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace skald::runtime {

/// Threads: one executor for each lane.
class executor
{
public:
    executor(std::string service, registry const& steps, ports::store& store, outbound& out, core::logger& log,
             std::mt19937_64 random);

    /// On return the delivery is settled for good: ack it. Throws ports::fault where the database could not
    /// settle it: do not ack, call again.
    void settle(ports::delivery const& d);

    /// The same for many at once, in as few transactions as that takes. True: that delivery is settled; the others are
    /// to be settled each alone. Throws as settle() does, and then none is known to be.
    std::vector<bool> settle_batch(std::span<ports::delivery const> deliveries);

    /// Keeps a delivery that can't be settled at all, with why. Throws as settle() does.
    void park(ports::delivery const& d, std::string_view reason, std::string const& why);

private:
    struct step_delivery;
    struct next_try;
    struct batch;

    /// One of a batch to which its step said no, and why.
    struct member_no
    {
        step_delivery const* work;
        std::string reason;
    };

    /// What a transaction was committed with, and the messages of it that leave from memory.
    struct leaving
    {
        outbound::departure departure;
        ports::changes committed;
    };

    // The happy way: executor.cpp.
    void read_and_settle(ports::delivery const& d);
    step_delivery delivery_of(ports::delivery const& d, core::envelope e) const;
    std::optional<step_delivery> read_step(ports::delivery const& d) const;
    std::string not_hosted(step_delivery const& work) const;
    void settle_step(step_delivery& work, std::optional<std::chrono::milliseconds> wait);
    void run(step_delivery const& work, ports::claim_answer const& claimed);
    void finish(step_delivery const& work, ports::claim_answer const& claimed, step_context const& ctx,
                std::string data);
    void add_transition(ports::changes& changes, step_delivery const& work, ports::claim_answer const& claimed,
                        core::event what, std::string const& why, std::string body);
    void commit(ports::changes& changes);
    void hand_over();

    // The others: executor_failures.cpp.
    bool roll_back(step_delivery const& work);
    void fail_or_throw(step_delivery const& work, ports::fault const& met);
    void decide(step_delivery const& work, core::event what, std::string const& why);
    void write_no(step_delivery const& work, ports::claim_answer const& claimed, core::event what,
                  std::string const& why);
    void tell_no(step_delivery const& work, core::event what, std::string const& why);
    void fail(step_delivery const& work, std::string const& why);
    void exhaust(step_delivery const& work, ports::claim_answer const& claimed, std::string const& why);
    void snooze(step_delivery const& work, std::chrono::milliseconds wait);
    void try_again(step_delivery const& work, next_try const& next);
    void set_step_deadline(step_delivery const& work, core::envelope& again) const;
    void come_back_later(step_delivery const& work, std::chrono::milliseconds wait);
    void give_up(step_delivery const& work, std::string_view reason, std::string const& why);
    void write_parked(step_delivery const& work, ports::claim_answer const& claimed, std::string_view reason,
                      std::string const& why);
    ports::parked_delivery to_park(step_delivery const& work, std::string_view reason, std::string const& why) const;
    bool claim_again(step_delivery const& work, ports::claim_answer& claimed);
    bool claim_to_try_again(step_delivery const& work, ports::claim_answer& claimed);

    // What is no step's: executor_notes.cpp.
    void note(ports::delivery const& d, std::vector<std::string> ports::changes::*told);
    std::optional<std::string> read_progress(ports::delivery const& d) const;
    void take_order(ports::delivery const& d);

    // Many at once: executor_batch.cpp.
    void settle_together(batch& all, std::vector<bool>& settled);
    std::vector<std::size_t> try_together(batch& now);
    bool is_settled_together(step_delivery const& work, ports::claim_answer const& claimed,
                             std::vector<step_delivery const*>& to_run);
    std::vector<member_no> run_together(std::vector<step_delivery const*> const& to_run, ports::changes& changes);
    void run_in_batch(std::span<step_delivery const* const> works, ports::changes& changes,
                      std::vector<member_no>& rejected);
    void settle_in_turn(batch& all, std::vector<bool>& settled);
    bool try_in_turn(step_delivery& work);
    void abandon_batch() noexcept;
    bool often_spoils(registered_step const& step) const;
    void learn(registered_step const& step, bool spoils);

    std::string service_;
    registry const& steps_;
    ports::store& store_;
    outbound& out_;
    core::logger& log_;
    std::mt19937_64 random_;
    int rolled_back_in_a_row_{};
    std::vector<leaving> leaving_;                     // until hand_over()
    std::map<registered_step const*, double> spoils_;  // the share of deliveries that did not end well, lately
};

}  // namespace skald::runtime
