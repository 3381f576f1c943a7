// The storm from the first process to the verdict: load goes on, faults strike and overlap, then they end, and
// everything has to come to rest.
#pragma once

#include "faults.hpp"
#include "kiosk.hpp"
#include "network.hpp"
#include "operator.hpp"
#include "settings.hpp"
#include "storm_report.hpp"

#include "rig/gateway.hpp"
#include "rig/order_load.hpp"
#include "rig/order_plan.hpp"
#include "rig/process.hpp"
#include "rig/progress.hpp"
#include "rig/shop_databases.hpp"
#include "rig/signals.hpp"

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace order_storm {

/// The storm can't go on: what happened, and where to find out more.
class storm_failure : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Threads: the one that made it, which also starts the services. Faults of the servers have a thread each.
class storm
{
public:
    storm(settings const& chosen, skald::rig::signals const& interruptions);

    /// Throws storm_failure, pqxx's exceptions, skald::rig::interrupted.
    storm_summary run();

private:
    using clock = std::chrono::steady_clock;

    struct striking_fault
    {
        fault what;
        clock::time_point until;
        std::function<void()> end;  // on the main thread, when its time is over
        std::future<void> work;     // of a fault that strikes and ends on a thread of its own
    };

    // The acts, in order.
    void start_services();
    void rage();
    void calm_down();
    void repeat_late();
    void end_services();
    storm_summary conclude();

    void strike(fault const& what);
    striking_fault begin(fault const& what);
    striking_fault begin_at_service(fault const& what);
    std::future<void> begin_at_server(fault const& what);
    void take_down(server_operator const& who, std::string const& server, bool in_order, milliseconds lasts) const;
    void delete_queue(std::size_t service);
    bool may_strike(fault const& what) const;
    void end_faults_that_are_over();

    void tick();
    void look_after_services();
    void refresh();
    bool has_come_to_rest();
    bool is_quiet();

    settings const& chosen_;
    skald::rig::signals const& interruptions_;
    server_operator const database_operator_;
    server_operator const broker_operator_;
    skald::rig::order_plan plan_;
    kiosk kiosk_;
    network database_network_;
    network broker_network_;
    std::uint16_t const port_;
    skald::rig::order_load load_;
    skald::rig::progress progress_;
    skald::rig::progress_figures figures_;
    skald::rig::saga_census census_;
    std::optional<skald::rig::shop_databases> databases_;  // absent while PostgreSQL is
    clock::time_point refreshed_{};
    storm_summary summary_;
    std::vector<skald::rig::finding> findings_;
    std::vector<std::string> ended_by_themselves_;
    int killed_by_poison_{};
    std::unique_ptr<skald::rig::gateway> gateway_;                // if one charges
    std::vector<std::unique_ptr<skald::rig::process>> services_;  // the kiosk's last
    std::vector<striking_fault> striking_;                        // last: they end before what they use is destroyed
};

}  // namespace order_storm
