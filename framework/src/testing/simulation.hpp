// All the services of a harness on one broker and one thread: what is sent, what waits, and what comes next.
#pragma once

#include "core/identity.hpp"
#include "core/message.hpp"
#include "memory/memory_transport.hpp"
#include "testing/fault_plan.hpp"
#include "testing/node.hpp"
#include "testing/observed_step.hpp"
#include "testing/server.hpp"

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

/// What is to be started.
struct scenario
{
    std::string_view definition;
    int version{};
    std::span<planned_step const> plan;
    std::string data;
};

/// A delivery that a service has in its hands, unacked.
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

    /// The service, whose node is made when it is first asked for.
    node& service(std::string const& name);
    std::vector<std::string> services() const;

    /// Throws configuration_error where a step of the plan is hosted nowhere.
    void require_hosted(scenario const& what) const;

    /// From the next begin() on no step is tried more often than that.
    void limit_attempts(int attempts_max)
    {
        for (auto* one : in_order_) one->limit_attempts(attempts_max);
    }

    /// Makes what is missing; the first time that is all the databases.
    void open();

    /// Everything as it was first, with a new broker.
    void begin();
    bool has_begun() const { return transport_.has_value(); }

    /// In this run what steps leave in their sessions is noted. To look is dear.
    void inspect_sessions(bool does)
    {
        for (auto* one : in_order_) one->inspect_sessions(does);
    }

    std::string start(scenario const& what, start_options const& options);

    /// Sends what is due and takes what has come, in the order of arrival. Whether anything waits now.
    bool pull();

    std::vector<held> const& hand() const { return hand_; }

    /// Settles the delivery at that place of the hand. Its service may die of it.
    void settle(std::size_t place);

    /// A copy of one that was settled comes right behind it.
    void settle_copy(held const& was);

    /// A copy comes on a connection of its own in the middle of it.
    void settle_twice_at_once(std::size_t place);

    /// The delivery at that place waits until the one behind it is settled.
    void swap_with_next(std::size_t place);

    /// Those come first, in their order.
    template <class Predicate>
    void bring_forward(Predicate is_meant)
    {
        std::stable_partition(hand_.begin(), hand_.end(), is_meant);
    }

    /// At the end of its queue.
    void send_again(core::message const& what);

    /// When the next message comes due; nothing where no outbox has any.
    std::optional<std::chrono::milliseconds> next_due();
    void advance(std::chrono::milliseconds time);

    /// Why not; empty where it was given.
    std::string cancel(core::saga_id const& saga);

    std::string name_of(core::message const& m);
    std::vector<core::message> sent() const { return transport_->captured(); }
    node* home(core::saga_id const& saga);

private:
    void crash(node& dead);

    std::string url_;
    std::unique_ptr<server> server_;
    std::map<std::string, std::unique_ptr<node>> nodes_;
    std::vector<node*> in_order_;  // as they were first named
    std::optional<memory::memory_transport> transport_;
    std::vector<held> hand_;
    std::map<std::string, std::vector<std::string>> named_;  // what has each name, the first without a number
    std::map<std::string, node*> homes_;                     // by scope and key
};

}  // namespace skald::testing::inner
