// Publishes captured messages again, directly to the queues of the services that they were for.
//
// It bypasses the exchange from which they were captured: what does not go through the exchange is not captured. So no
// duplicator ever duplicates a duplicate, its own or another's, and duplicates need no mark that identifies them.
#pragma once

#include "duplicator/captured.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/content_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::tools {

/// A service's queue does not exist (any more). Retrying does not help.
class queue_missing : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/// Every function throws rabbitmq::connection_lost if the connection is lost; after that, only take_unconfirmed() may
/// be called.
/// Threads: one at a time.
class copier
{
public:
    copier(rabbitmq::connection_settings const& settings, sockets::socket_interrupter& interrupter);

    /// The broker accepts messages, and not too many wait for their confirms.
    bool may_send() const { return !is_blocked_ && in_flight_.size() < window_max; }

    void send(captured_ptr message);

    /// Handles the broker's replies, and serves heartbeats; returns how many messages were confirmed. Throws
    /// queue_missing if a message had no queue to go to.
    std::size_t take_replies();

    /// Throws queue_missing.
    void check_queue(std::string const& service);

    /// Those that the broker has refused for now.
    std::vector<captured_ptr> take_refused() { return std::exchange(refused_, {}); }

    /// Those whose arrival is unknown. For use when the connection is lost.
    std::vector<captured_ptr> take_unconfirmed();

    bool is_idle() const { return in_flight_.empty(); }
    void close() noexcept;
    int socket() const { return broker_.socket(); }

private:
    static constexpr std::size_t window_max = 500;

    void handle(amqp_method_t const& method);
    void answered(std::uint64_t tag, bool multiple, bool positive);

    rabbitmq::connection broker_;
    rabbitmq::content_reader reader_;
    std::map<std::uint64_t, captured_ptr> in_flight_;  // by delivery tag
    std::uint64_t sent_{};
    std::size_t confirmed_{};  // since take_replies() was called
    std::vector<captured_ptr> refused_;
    bool is_blocked_{};
};

}  // namespace skald::tools
