// Runs the demonstration from the first process to the verdict. Everything that happens at a certain moment, such as a
// kill, is decided here, on the main thread; the clients, and what copies messages on a broker, have threads of their
// own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "queues.hpp"
#include "report.hpp"
#include "rig/gateway.hpp"
#include "rig/order_load.hpp"
#include "rig/order_plan.hpp"
#include "rig/process.hpp"
#include "rig/progress.hpp"
#include "rig/shop_databases.hpp"
#include "rig/signals.hpp"

namespace order_demo {

/// The demonstration can't go on: what happened, and where to look.
class demo_failure : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

class director
{
public:
    director(options const& chosen, signals const& interruptions);

    /// Throws demo_failure, broker_error, what the duplicator throws, pqxx's exceptions, `interrupted`.
    run_summary run();

private:
    using clock = std::chrono::steady_clock;

    struct outage
    {
        std::size_t service;
        clock::time_point until;
    };

    // The acts, in order.
    void start_services();
    void place_orders();
    bool await_sagas();
    void repeat_late();
    void await_quiet();
    void end_services();
    finding broken_invariants() const;
    run_summary conclude();

    // Throughout all acts.
    void tick();
    template <typename Condition>
    bool wait_until(Condition const& reached);
    void look_after_services();
    void strike(planned_kill const& kill);
    void strike_what_is_due();
    void refresh();
    std::string signs_of_life();

    bool is_ready(std::size_t service);
    bool is_quiet();
    std::int64_t messages_ready();

    options const& chosen_;
    signals const& interruptions_;
    order_plan const plan_;
    shop_databases databases_;
    std::unique_ptr<queues> queues_;
    std::uint16_t const port_;
    order_load load_;
    progress progress_;

    progress_figures figures_;
    saga_census census_;
    clock::time_point refreshed_{};
    bool ordering_{};
    std::size_t kills_struck_{};  // of plan_.kills
    std::vector<outage> outages_;
    clock::time_point looked_at_{};
    std::optional<clock::time_point> quiet_since_;
    std::int64_t activity_{};
    std::vector<finding> findings_;  // those that no database knows

    std::unique_ptr<gateway> gateway_;  // if there is one

    // Last: the services are destroyed before the clients, so that no client waits for a response.
    std::vector<std::unique_ptr<process>> services_;
};

}  // namespace order_demo
