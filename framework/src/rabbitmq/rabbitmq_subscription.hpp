// The deliveries for one service: a thread that owns the connection, and reconnects when it is lost.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "rabbitmq/connection.hpp"
#include "sockets/socket_interrupter.hpp"
#include "transports/io_thread.hpp"
#include "transports/mailbox_subscription.hpp"
#include "transports/reconnect_schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace skald::rabbitmq {

class consumer_session;

struct subscription_settings
{
    connection_settings connection;
    core::backoff reconnect;
    std::uint64_t seed{};
    ports::subscriber who;
    std::chrono::milliseconds rebind_every{};
    bool declares{true};
};

class rabbitmq_subscription final : public transports::mailbox_subscription
{
public:
    /// Waits for the first attempt to connect; an unavailable broker is no error, the attempts go on. Throws:
    /// topology_mismatch.
    rabbitmq_subscription(subscription_settings settings, core::logger& log);

    /// Sends the pending acks and closes, within about two seconds; if it is just connecting, it waits for the end of
    /// that attempt.
    ~rabbitmq_subscription() override;

private:
    using clock = std::chrono::steady_clock;

    // All of these run on the connection's thread.
    void run();
    bool run_once();
    void serve(consumer_session& session);
    void record_consuming(consumer_session const& session);
    void log_dead_letter(consumer_session const& session);
    void wait_for_something(consumer_session const& session) const;
    void lose(std::string const& why);

    subscription_settings settings_;
    core::logger& log_;
    transports::reconnect_schedule schedule_;
    std::uint64_t generation_{};
    sockets::socket_interrupter interrupter_;
    bool consuming_{};
    bool dead_letter_logged_{};
    bool parked_readable_{true};
    std::optional<transports::io_thread> thread_;  // last: it uses the rest
};

}  // namespace skald::rabbitmq
