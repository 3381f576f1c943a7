// Publishes with confirms, and comes back when the connection is lost.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "rabbitmq/publish_session.hpp"
#include "rabbitmq/reconnect_schedule.hpp"
#include "sockets/socket_breaker.hpp"

#include <optional>
#include <string>

namespace skald::rabbitmq {

struct publisher_settings
{
    connection_settings connection;
    core::backoff reconnect;
    std::size_t confirm_window{500};
    std::uint64_t seed{};
};

class rabbitmq_publisher final : public ports::publisher
{
public:
    /// Tries to connect once; a broker that is away is no error.
    /// Throws: topology_mismatch.
    rabbitmq_publisher(publisher_settings settings, core::logger& log);
    ~rabbitmq_publisher() override;

    bool available() override;
    std::vector<ports::receipt> publish(std::span<ports::outgoing const> messages,
                                        std::chrono::milliseconds deadline) override;
    void tend() override;
    std::string trouble() const override;

private:
    using clock = std::chrono::steady_clock;
    using batch = std::span<ports::outgoing const>;

    void connect(std::chrono::milliseconds patience);
    void try_to_connect(std::chrono::milliseconds patience);
    bool ready(clock::time_point until);
    void lose(std::string const& why);
    void listen();
    void note_blocking();
    bool make_room(clock::time_point until);
    void send_all(batch messages, std::vector<ports::receipt> const& receipts, clock::time_point until);
    void await_answers(clock::time_point until);
    void settle(batch messages, std::vector<ports::receipt>& receipts);

    publisher_settings settings_;
    core::logger& log_;
    reconnect_schedule schedule_;
    sockets::socket_breaker breaker_;
    sockets::watchdog watchdog_{breaker_};
    std::optional<publish_session> session_;
    std::string trouble_{"not connected yet"};
    bool blocked_{};  // as it was last logged
};

}  // namespace skald::rabbitmq
