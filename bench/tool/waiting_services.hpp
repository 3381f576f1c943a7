// Processes of the service that waits (shop/waiting.hpp), which are killed, stopped and started again.
#pragma once

#include "bench_databases.hpp"
#include "phase.hpp"

#include "rig/process.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald_bench {

/// Since 1970.
double milliseconds_of(std::chrono::system_clock::time_point when);
double milliseconds_now();

/// Threads: for the thread that made it. Whatever goes wrong is a std::runtime_error.
class waiting_services
{
public:
    /// Starts so many processes with a new queue and a new database, and waits until they take deliveries.
    waiting_services(bench const& b, int processes);

    /// Waits until `reached`, which is asked every 20 ms.
    void wait_for(char const* what, std::chrono::seconds patience, std::function<bool()> const& reached) const;

    skald::rig::process& at(std::size_t n) { return *processes_.at(n); }
    std::size_t size() const { return processes_.size(); }

    /// Starts what has been killed, and waits until it takes deliveries.
    void restart(std::size_t n);

    /// SIGTERM for those that run; throws if one does not end with 0.
    void stop();

    bench_databases& databases() { return databases_; }
    pqxx::connection& database() { return databases_.at(orders); }
    std::uint16_t http_port() const { return ports_.front(); }

    /// Of the service's queue: messages that nobody has taken, and processes that take them.
    std::uint32_t ready_messages() const;
    std::uint32_t consumers() const;

private:
    bench const& b_;
    bench_databases databases_;
    std::vector<std::uint16_t> ports_;
    std::vector<std::unique_ptr<skald::rig::process>> processes_;
};

}  // namespace skald_bench
