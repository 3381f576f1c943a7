// Sends every message to some services again, several times, at once and later: what a broker may do at any time, done
// all the time. For staging systems and tests; the services' effects must be the same as without it.
//
// The originals are neither delayed nor touched: an additional queue next to those of the services gets copies
// (tap.hpp). A duplicate has exactly the properties and headers of its original, and goes directly to the service's
// queue (copier.hpp).
#pragma once

#include "duplicator/delay.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald::tools {

struct duplicator_options
{
    std::string broker_url;             // as in AMQP_URL
    std::vector<std::string> services;  // whose messages: the queues skald.<service>, which must exist
    int times{3};                       // how often each message is sent again
    delay_rule delay{now_and_later(std::chrono::seconds{30})};
    std::uint64_t seed{};                          // for the random delays
    std::size_t bytes_max{64u * 1024u * 1024u};    // of messages held back; above this limit they are sent at once
    std::function<void(std::string const&)> tell;  // reports temporary problems; called on the duplicator's thread
};

struct duplicated
{
    std::uint64_t seen{};        // messages
    std::uint64_t duplicates{};  // confirmed by the broker
    std::uint64_t left{};        // duplicates of messages seen, not sent or not confirmed yet
};

/// Works on a thread of its own from construction on. It waits for a broker that is away; messages sent to the services
/// meanwhile are not seen.
/// Threads: any, but for finish() and the destructor.
class duplicator
{
public:
    /// When this returns, whatever is sent to these services from now on is sent again. Throws std::invalid_argument
    /// for nonsensical options, and std::runtime_error if the broker can't be reached or a queue is missing.
    explicit duplicator(duplicator_options options);

    /// Sends nothing more. The tap's queue is gone.
    ~duplicator();
    duplicator(duplicator const&) = delete;
    duplicator& operator=(duplicator const&) = delete;

    /// From now on, nothing is held back.
    void hurry();

    duplicated so_far() const;

    /// Rethrows the error that ended the work, if any, such as a deleted queue of a service.
    void check() const;

    /// Takes in nothing more, sends at once what was held back, and waits for the confirms, for at most `timeout`. True
    /// if nothing is left. The tap's queue is then gone.
    bool finish(std::chrono::milliseconds timeout);

private:
    class work;
    std::unique_ptr<work> work_;
};

}  // namespace skald::tools
