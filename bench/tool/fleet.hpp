// The three services as processes: on the framework, or hand-written.
#pragma once

#include "bench_databases.hpp"
#include "options.hpp"

#include "rig/process.hpp"
#include "rig/signals.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald::rig {
class broker;
}

namespace skald_bench {

/// `inbox`: the framework without a broker, SKALD_TRANSPORT=postgres; `kafka`: over Kafka.
enum class implementation { framework, inbox, kafka, baseline };

std::string name_of(implementation who);

/// Where the broker listens that it uses; 0: none.
int broker_port(options const& chosen, implementation who);

struct fleet_shape
{
    implementation who{implementation::framework};
    bool tcp{};
    bool shop{};       // the order example's services as shipped, instead of the bench's own
    int processes{1};  // of each service
    std::vector<std::size_t> services{orders, payments, shipping};
    skald::rig::environment variables{};  // in addition
};

/// Threads: for the thread that made it. Whatever goes wrong is a std::runtime_error with the service's log.
class fleet
{
public:
    /// Starts those services, and waits until they take deliveries.
    fleet(options const& chosen, skald::rig::signals const& interruptions, bench_databases const& databases,
          fleet_shape shape);

    /// Waits until `reached`, checked every `tick`; throws if a service ends or it takes longer than `patience`.
    void wait_for(char const* what, std::chrono::seconds patience, std::chrono::milliseconds tick,
                  std::function<bool()> const& reached) const;
    void check_that_all_run() const;

    /// SIGTERM; throws if one does not end with 0. A service stopped while working may also say that it left some (75).
    void stop(bool at_work = false);

    /// Of the first process of `orders`, on the framework.
    std::uint16_t http_port() const { return http_ports_.empty() ? std::uint16_t{} : http_ports_.front(); }

    /// Of each of them.
    std::vector<std::uint16_t> const& http_ports() const { return http_ports_; }

    struct process
    {
        std::string name;
        pid_t pid{};
    };
    std::vector<process> processes() const;

private:
    void start_all(options const& chosen, bench_databases const& databases);
    bool take_deliveries(options const& chosen, skald::rig::broker& observer, bench_databases const& databases) const;
    void start(options const& chosen, bench_databases const& databases, std::size_t service, int number);

    skald::rig::signals const& interruptions_;
    fleet_shape shape_;
    std::vector<std::uint16_t> http_ports_;
    std::vector<std::unique_ptr<skald::rig::process>> services_;
};

/// Starts the framework's services once, with new queues, so that the databases have their tables, and stops them.
void make_tables(options const& chosen, skald::rig::signals const& interruptions, bench_databases const& databases,
                 bool shop = false);

}  // namespace skald_bench
