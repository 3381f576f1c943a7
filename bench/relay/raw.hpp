// A connection by hand, over rabbitmq-c and nothing of Skald's: what there is to compare with,
// and what empties the queue.
#pragma once

#include "rabbitmq/amqp.hpp"
#include "rabbitmq/url.hpp"

#include <atomic>
#include <cstddef>
#include <string>

namespace relay_bench {

/// Throws std::runtime_error where the broker says no. Threads: one.
class raw_connection
{
public:
    explicit raw_connection(skald::rabbitmq::address const& where);

    /// Publishes `count` messages to `service`, persistent, with mandatory and confirms, at most `window` unconfirmed.
    void publish(std::string const& service, std::size_t count, std::size_t window, std::string const& body);

    /// Takes whatever comes for `service`, without acks, until `stop`.
    void drain(std::string const& service, std::atomic<bool> const& stop, std::atomic<std::size_t>& taken);

private:
    void check(char const* doing);
    std::uint64_t read_confirm();

    skald::rabbitmq::connection_handle state_;
};

}  // namespace relay_bench
