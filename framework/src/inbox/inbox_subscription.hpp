// The deliveries for one service out of its own database: a thread that owns the connection, and reconnects when it is
// lost.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "postgres/connection.hpp"
#include "sockets/socket_interrupter.hpp"
#include "transports/io_thread.hpp"
#include "transports/mailbox_subscription.hpp"
#include "transports/reconnect_schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skald::inbox {

class consumer;

struct subscription_settings
{
    postgres::connection_options database;
    core::backoff reconnect;
    std::uint64_t seed{};
    ports::subscriber who;
    std::chrono::milliseconds poll_every{};
};

class inbox_subscription final : public transports::mailbox_subscription
{
public:
    /// Waits for the first attempt to connect; a database that is away is no error, the attempts go on.
    inbox_subscription(subscription_settings settings, core::logger& log);

    /// Deletes what was acked, and gives back the rest.
    ~inbox_subscription() override;

private:
    using clock = std::chrono::steady_clock;

    // All of these run on the connection's thread.
    void run();
    bool run_once();
    void serve(consumer& with);
    bool wait_for_something(consumer const& with) const;
    void lose(std::string const& why);

    subscription_settings settings_;
    core::logger& log_;
    transports::reconnect_schedule schedule_;
    std::uint64_t generation_{};
    std::vector<std::int64_t> ended_;              // this process's consumers whose messages may not be free yet
    std::optional<transports::io_thread> thread_;  // last: it uses the rest
};

}  // namespace skald::inbox
