// The three services as processes: by the framework, or by hand.
#pragma once

#include "options.hpp"
#include "world.hpp"

#include "service_process.hpp"
#include "signals.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald_bench {

enum class implementation { framework, floor };

std::string name_of(implementation who);

/// Threads: for the thread that made it. Whatever goes wrong is a std::runtime_error with the log of the service.
class fleet
{
public:
    /// Starts those services, and waits until they take deliveries.
    fleet(options const& chosen, order_demo::signals const& interruptions, world const& databases, implementation who,
          bool tcp, std::vector<std::size_t> const& services = {orders, payments, shipping});

    /// Waits until `reached`, looks every `tick`, and throws where a service ends or it takes longer.
    void wait_for(char const* what, std::chrono::seconds patience, std::chrono::milliseconds tick,
                  std::function<bool()> const& reached) const;
    void check_that_all_run() const;

    /// SIGTERM; throws where one does not end with 0.
    void stop();

    std::uint16_t http_port() const { return http_port_; }

    struct process
    {
        std::string name;
        pid_t pid{};
    };
    std::vector<process> processes() const;

private:
    void start(options const& chosen, world const& databases, std::size_t service);

    order_demo::signals const& interruptions_;
    implementation who_;
    bool tcp_;
    std::uint16_t http_port_;
    std::vector<std::unique_ptr<order_demo::service_process>> services_;
};

/// Starts the framework's services once, so that the databases have their tables, and stops them.
void make_tables(options const& chosen, order_demo::signals const& interruptions, world const& databases);

}  // namespace skald_bench
