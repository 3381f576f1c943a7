// One shop of three service processes with its own databases and broker, in which faults are armed and healed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "armament.hpp"
#include "gateway/gateway_process.hpp"
#include "mail.hpp"
#include "plan.hpp"
#include "support/fresh_database.hpp"
#include "support/service_process.hpp"

namespace skald::crash {

inline constexpr std::size_t orders = 0;
inline constexpr std::size_t payments = 1;
inline constexpr std::size_t shipping = 2;
inline constexpr std::size_t the_operator = 3;  // of `places`

/// Of a service, unless a run sets another number.
inline constexpr unsigned usual_lanes = 4;

/// Threads: one; ports may be read by others.
class shop_system
{
public:
    /// `mutant`: the name of the one that the services and the operator's command line are; empty for none.
    /// `without_broker`: messages go from database to database.
    shop_system(std::string const& mutant, bool without_broker);
    ~shop_system();
    shop_system(shop_system const&) = delete;
    shop_system& operator=(shop_system const&) = delete;

    test::fresh_database& database(std::size_t service) { return *databases_[service]; }
    mail& between() { return *mail_; }
    std::uint16_t port() const { return port_; }
    std::uint16_t standin_port() const { return standin_port_; }

    void arm(std::size_t place, std::string const& program);
    armament& arms(std::size_t place) { return *arms_[place]; }

    /// Runs `skald` in a service's database, with the faults that the operator is armed with: a command that breaks off
    /// is run again without them, as its user would do, and while one is stopped another does the same.
    void operate(std::size_t service, std::vector<std::string> const& words);

    /// Starts what died, without its fault, and continues what stopped, after `stop_for`. True if all is up and well.
    bool look_after();

    /// How many lanes a service has from now on. With a number other than the usual it is restarted each time, and
    /// knows nothing of what came before.
    void set_lanes(std::size_t service, unsigned lanes);

    /// Whether payments calls a gateway from now on, with the way's faults, or waits to be approved. A blind gateway
    /// ignores keys and answers no look-up. Restarts payments where that changes.
    void set_payments(way const& goes);
    test::gateway_process const& gateway() const { return *in_use_; }

    /// What was continued and killed since arm(), in words.
    std::string what_happened() const { return happened_; }

    /// Ends the stand-ins that took over from what was stopped.
    void send_standins_home();

    /// The services' logs since they were last started.
    std::string logs() const;

private:
    using clock = std::chrono::steady_clock;

    void look_after(std::size_t service);
    void start_standin(std::size_t service);
    void restart(std::size_t service);
    test::environment variables(std::size_t service, bool armed) const;
    test::environment operator_variables(std::size_t service, bool armed) const;

    std::string mutant_;
    shop_databases databases_;
    std::unique_ptr<mail> mail_;
    std::array<std::unique_ptr<armament>, places.size()> arms_;
    std::array<std::unique_ptr<test::service_process>, services.size()> processes_, standins_;
    std::array<std::optional<clock::time_point>, services.size()> stopped_;
    std::array<bool, services.size()> is_up_{};
    std::array<unsigned, services.size()> lanes_{usual_lanes, usual_lanes, usual_lanes};
    std::unique_ptr<test::gateway_process> gateway_, blind_gateway_;  // once a run needs it
    test::gateway_process* in_use_{};
    std::vector<std::string> payments_arguments_;
    std::uint16_t port_{}, standin_port_{};
    std::string happened_;
};

}  // namespace skald::crash
