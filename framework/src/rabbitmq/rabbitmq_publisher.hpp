// Publishes with confirms, and reconnects when the connection is lost.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "rabbitmq/barred_exchanges.hpp"
#include "rabbitmq/publish_session.hpp"
#include "sockets/watchdog.hpp"
#include "transports/reconnect_schedule.hpp"
#include "transports/waker.hpp"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace skald::rabbitmq {

class gathered_writes;

struct publisher_settings
{
    connection_settings connection;
    core::backoff reconnect;
    std::size_t confirm_window{1'000};
    std::uint64_t seed{};
    bool declares{true};
    core::backoff barred{std::chrono::seconds{5}, std::chrono::minutes{1}};  // between tries of an exchange
};

class rabbitmq_publisher final : public ports::publisher
{
public:
    /// Tries to connect once; an unavailable broker is no error. Throws: topology_mismatch.
    rabbitmq_publisher(publisher_settings settings, core::logger& log);
    ~rabbitmq_publisher() override;

    bool available() override;
    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline) override;
    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override;
    void interrupt() noexcept override { wake_.wake(); }
    std::string last_error() const override;

private:
    using clock = std::chrono::steady_clock;
    using batch = std::span<ports::outgoing const>;

    /// What one send() sent, up to but excluding the tag `end`, is waited for until `until`.
    struct waiting
    {
        clock::time_point until;
        std::uint64_t end;
    };

    void connect(std::chrono::milliseconds timeout);
    void try_to_connect(std::chrono::milliseconds timeout);
    bool is_available_within(std::chrono::milliseconds timeout);
    void lose(connection_lost const& lost);
    void lose(std::string const& why);
    void bar_exchanges(refused_by_broker const& refusal);
    void listen();
    void record_blocking();
    bool make_room(std::size_t below, clock::time_point until, gathered_writes& writes);
    std::optional<ports::receipt> refuse(ports::outgoing const& one, std::string const& exchange) const;
    void send_all(batch messages, clock::time_point until, std::size_t& dealt_with);
    bool is_woken_within(std::chrono::milliseconds wait);
    void harvest();
    void fail_overdue();

    publisher_settings settings_;
    core::logger& log_;
    transports::reconnect_schedule schedule_;
    barred_exchanges barred_;
    sockets::socket_interrupter interrupter_;
    sockets::watchdog watchdog_{interrupter_};
    transports::waker wake_;
    std::optional<publish_session> session_;
    std::deque<waiting> waiting_;  // for answers on this connection
    std::vector<ports::receipt> receipts_;
    std::string last_error_{"not connected yet"};
    bool blocked_{};  // as it was last logged
};

}  // namespace skald::rabbitmq
