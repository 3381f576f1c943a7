// Sends every message to some services again, several times, at once and later: what a broker may do at any time, done
// all the time. For staging systems and tests; the services' effects must be the same as without it.
//
// The originals are neither held up nor touched: a queue beside those of the services gets copies (tap.hpp).
// A duplicate has every property and header of its original and no other, and goes straight into the
// service's queue (copier.hpp).
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
    std::string broker_url;             // as AMQP_URL
    std::vector<std::string> services;  // whose messages: the queues skald.<service>, which must be there
    int times{3};                       // how often each is sent again
    delay_rule delay{now_and_later(std::chrono::seconds{30})};
    std::uint64_t seed{};                          // of what the delays draw
    std::size_t bytes_max{64u * 1024u * 1024u};    // of messages that are held back; what is above it is sent at once
    std::function<void(std::string const&)> tell;  // hears of what goes wrong for a while; on the duplicator's thread
};

struct duplicated
{
    std::uint64_t seen{};        // messages
    std::uint64_t duplicates{};  // that the broker has confirmed
    std::uint64_t left{};        // duplicates of what was seen that are not sent or not confirmed
};

/// Works on a thread of its own from construction on. A broker that goes away is waited for; what was sent to the
/// services meanwhile is not seen.
/// Threads: any, but for finish() and the destructor.
class duplicator
{
public:
    /// When this returns, whatever is sent to these services from now on is sent again.
    /// Throws: std::invalid_argument for options that can't be meant; std::runtime_error where the broker can't be
    /// reached or a queue is missing.
    explicit duplicator(duplicator_options options);

    /// Sends nothing more. The queue beside the services' is gone.
    ~duplicator();
    duplicator(duplicator const&) = delete;
    duplicator& operator=(duplicator const&) = delete;

    /// From now on nothing is held back.
    void hurry();

    duplicated so_far() const;

    /// Throws what ended the work, if something did: a queue of a service that was deleted.
    void check() const;

    /// Takes nothing more, sends at once what was held back, and waits for its confirms, at most so long. True where
    /// nothing is left. The queue beside the services' is gone then.
    bool finish(std::chrono::milliseconds timeout);

private:
    class work;
    std::unique_ptr<work> work_;
};

}  // namespace skald::tools
