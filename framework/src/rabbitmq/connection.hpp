// One connection to the broker with one channel open on it.
//
// It is never repaired: any failure throws connection_lost, and its owner makes a new one.
#pragma once

#include "rabbitmq/amqp.hpp"
#include "rabbitmq/errors.hpp"
#include "rabbitmq/url.hpp"
#include "sockets/socket_interrupter.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace skald::rabbitmq {

struct connection_settings
{
    address where;
    std::string name;
    int heartbeat_seconds{20};
    std::chrono::milliseconds connect_timeout{5'000};  // to connect and then again to log in
};

/// Threads: one.
class connection
{
public:
    /// Connects, logs in and opens the channel. The interrupter holds the socket for as long as this lives.
    /// Throws: connection_lost.
    connection(connection_settings const& settings, sockets::socket_interrupter& interrupter);
    ~connection();
    connection(connection const&) = delete;
    connection& operator=(connection const&) = delete;

    amqp_connection_state_t raw() const { return state_.get(); }
    std::string const& vhost() const { return vhost_; }
    int socket() const { return amqp_get_sockfd(state_.get()); }
    std::size_t frame_max() const { return static_cast<std::size_t>(amqp_get_frame_max(state_.get())); }

    /// The next frame, or nothing if none came within `wait`. Its pointers are valid until release_buffers(). If the
    /// broker closes the channel or the connection, that is answered here and thrown. Throws: undecodable too.
    std::optional<amqp_frame_t> read(std::chrono::milliseconds wait);

    /// Returns the memory of frames that have been processed. To be called once per iteration of a loop.
    void release_buffers() { amqp_maybe_release_buffers(state_.get()); }

    /// Raises the limit for frames that we read, not for those that we may send: the broker adds headers to what it
    /// redelivers, so that a message that was just small enough to publish comes back larger than agreed.
    void expect_larger_frames();

    /// Sends a method and does not wait for its answer.
    void send(amqp_method_number_t method, void* fields, char const* doing);

    /// Closes a connection that can't be read any more, and waits until the broker has processed all that was sent
    /// before.
    void close_unread() noexcept;

    /// Closes properly within about `timeout`. A connection that is destroyed without this is cut.
    void close(std::chrono::milliseconds timeout = std::chrono::seconds{1}) noexcept;

    /// Throws if a library function returned an error.
    void check(int status, char const* doing) const;
    void check(amqp_rpc_reply_t const& reply, char const* doing) const;

    /// Checks the last synchronous call.
    void check_last(char const* doing) const { check(amqp_get_rpc_reply(state_.get()), doing); }

private:
    void open_socket(connection_settings const& settings);
    void log_in(connection_settings const& settings);
    [[noreturn]] void answer_close(amqp_frame_t const& frame);

    connection_handle state_;
    sockets::socket_interrupter& interrupter_;
    std::string const vhost_;
    int heartbeat_seconds_{};
};

}  // namespace skald::rabbitmq
