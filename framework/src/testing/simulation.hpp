// All services of a harness on one broker and one thread: what is sent, what waits, and what comes next.
#pragma once

#include "core/identity.hpp"
#include "core/message.hpp"
#include "memory/memory_transport.hpp"
#include "testing/fault_plan.hpp"
#include "testing/node.hpp"
#include "testing/observed_step.hpp"
#include "testing/server.hpp"

#include <skald/saga.hpp>
#include <skald/start.hpp>
#include <skald/testing/proof.hpp>
#include <skald/testing/views.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::testing::inner {

/// What to start.
struct scenario
{
    std::string_view definition;
    int version{};
    std::span<planned_step const> plan;
    std::string data;
    std::string attributes{};
    std::optional<core::message>
        received{};  // in place of a saga: a message to the handler that is the plan's one step
};

/// A delivery that a service holds unacked.
struct held
{
    std::string name;
    node* at{};
    ports::delivery delivery;
};

/// Threads: one.
class simulation
{
public:
    explicit simulation(std::string url) : url_{std::move(url)} {}

    inner::fault_plan fault_plan;
    script rules;
    std::vector<outside_effect> outside;

    /// The service's node, which is created at the first call.
    node& service(std::string const& name);
    std::vector<std::string> services() const;

    /// Whether a step of that name, as its record has it, is an external step somewhere.
    bool makes_calls(std::string_view step) const;

    /// What a step of the scenario does between two transactions, if it has two.
    std::optional<ports::started_kind> started_kind_of(scenario const& what, std::string_view step,
                                                       bool is_forward) const;

    /// The steps that have begun and not ended.
    std::vector<std::string> started();

    /// Calls `what` with each step and message handler, as its service hosts it.
    template <class What>
    void for_each_hosted(What what) const
    {
        for (auto const* one : in_order_)
            for (auto const& hosted : one->all_hosted()) what(hosted);
    }

    bool hosts_handler(std::string const& service, std::string_view handler) const
    {
        auto const at = nodes_.find(service);
        return at != nodes_.end() && at->second->hosts("", handler);
    }

    /// Throws configuration_error if a step of the plan is not hosted anywhere.
    void require_hosted(scenario const& what) const;

    /// From the next begin() on, limits the attempts of each step.
    void limit_attempts(int attempts_max)
    {
        for (auto* one : in_order_) one->limit_attempts(attempts_max);
    }

    /// Creates what is missing; the first time, that is all the databases.
    void open();

    /// Resets everything to its initial state, with a new broker.
    void begin();
    bool has_begun() const { return transport_.has_value(); }

    /// The next use begins anew.
    void end() { transport_.reset(); }

    /// Records, for this run, what steps leave behind in their sessions. The inspection is expensive.
    void inspect_sessions(bool does)
    {
        for (auto* one : in_order_) one->inspect_sessions(does);
    }

    std::string start(scenario const& what, start_options const& options);

    /// Somebody may have written to a database from outside.
    void wake()
    {
        for (auto* one : in_order_) one->wake();
    }

    /// Sends what is due and takes what has arrived, in the order of arrival. Returns whether anything waits now.
    bool pull();

    std::vector<held> const& hand() const { return hand_; }

    /// Goes on with one started step that is due: makes its call, or ends its wait. Its service may crash meanwhile.
    /// False if none is due.
    bool go_on();

    /// Processes the delivery at that place in hand(). Its service may crash meanwhile.
    void process(std::size_t place);

    /// Delivers a copy right after the original was processed.
    void process_copy(held const& was);

    /// Delivers a copy on a separate connection while the original is being processed.
    void process_twice_at_once(std::size_t place);

    /// The delivery at that place waits until the next one is processed.
    void swap_with_next(std::size_t place);

    /// Moves those to the front, keeping their order.
    template <class Predicate>
    void bring_forward(Predicate is_meant)
    {
        std::stable_partition(hand_.begin(), hand_.end(), is_meant);
    }

    /// Appends a copy, or a message from outside, to the end of its queue.
    void send_again(core::message const& what);

    /// Moves the clock on to when the next message or started step is due. False: there is none. A step whose call is
    /// unknown does not count: it may be asked about for ever. Throws std::runtime_error with the step and its error if
    /// the end of one could not be recorded again and again: that has no bound of its own.
    bool advance_to_next();
    void advance(std::chrono::milliseconds time);

    /// Signals a step, by way of the saga's home.
    signal_result signal(core::saga_id const& saga, std::string_view step, std::string const& body);

    /// Returns why the command was refused; empty if it was issued.
    std::string cancel(core::saga_id const& saga);

    std::string name_of(core::message const& m);
    std::vector<core::message> sent() const { return transport_->captured(); }
    node* home(core::saga_id const& saga);

private:
    void crash(node& dead);
    void require_settled();

    std::string url_;
    std::unique_ptr<server> server_;
    std::map<std::string, std::unique_ptr<node>> nodes_;
    std::vector<node*> in_order_;  // in the order in which they were first named
    std::optional<memory::memory_transport> transport_;
    std::vector<held> hand_;
    std::map<std::string, std::vector<std::string>> named_;  // the messages with each name; the first one has no number
    std::map<std::string, node*> homes_;                     // by scope and key
};

}  // namespace skald::testing::inner
