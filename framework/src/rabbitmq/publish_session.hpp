// The lifetime of one connection as a publisher: sends, and reads the broker's answers into the confirm window.
#pragma once

#include "rabbitmq/confirm_window.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/content_reader.hpp"

#include <chrono>
#include <string>

namespace skald::rabbitmq {

/// Where a message is published: Skald's exchange, unless it says otherwise (a reply).
std::string exchange_of(core::message const& message);

/// Every function throws connection_lost if the connection is lost; then only window() may be called.
class publish_session
{
public:
    /// Connects, declares the exchanges or checks that they exist, and requests confirms. Throws: topology_mismatch
    /// too.
    publish_session(connection_settings const& settings, sockets::socket_interrupter& interrupter,
                    bool declares = true);

    /// Sends without waiting for an answer, but waits while the socket takes no more bytes.
    void send(std::int64_t row, core::message const& message);

    /// Waits for a frame and processes it. False if none came.
    bool read(std::chrono::milliseconds wait);

    /// Processes what has already arrived; serves heartbeats.
    void drain();

    void close() noexcept;

    /// Why the broker takes nothing from publishers; empty if it does.
    std::string const& blocked() const { return blocked_; }
    int socket() const { return broker_.socket(); }
    std::size_t frame_max() const { return broker_.frame_max(); }
    confirm_window& window() { return window_; }

private:
    void handle(amqp_method_t const& method);
    void handle_return(content const& returned);

    connection broker_;
    confirm_window window_;
    content_reader reader_;
    std::string blocked_;
};

}  // namespace skald::rabbitmq
