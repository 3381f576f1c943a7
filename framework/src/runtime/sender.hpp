// The sender: publishes what transactions have just committed, from memory, and tells the relay which rows may go.
//
// It has no database connection. A message that it does not get confirmed is the relay's, when its row comes due.
#pragma once

#include "core/log.hpp"
#include "ports/transport.hpp"
#include "runtime/outbound.hpp"
#include "runtime/stop_flag.hpp"

#include <chrono>
#include <unordered_map>

namespace skald::runtime {

struct sender_options
{
    std::size_t batch_max{500};
    std::chrono::milliseconds deadline{5'000};  // for the confirms; and for the last ones, once it is to stop
    // Confirmed rows are told together: when there are so many, or when the first of them has waited so long.
    std::size_t told_max{250};
    std::chrono::milliseconds told_after{25};
};

/// Threads: run() on one thread. Whoever stops it interrupts the publisher as well.
class sender
{
public:
    sender(sender_options options, outbound& out, ports::publisher& publisher, stop_flag const& stop,
           core::logger& log);

    /// Until `stop`, and then until everything that was handed over has its answer, or for `deadline`.
    void run();

    /// Sends what was handed over and notes what was answered, waiting for that at most `wait`.
    void turn(std::chrono::milliseconds wait);

private:
    using clock = outbound::clock;

    struct sent
    {
        std::string key;
        std::string destination;
        std::size_t bytes{};
    };

    void try_to_turn(std::chrono::milliseconds wait);
    std::size_t send();
    void note(ports::receipt const& receipt);
    void tell(bool now);
    void forget_all();
    std::chrono::milliseconds patience(std::chrono::milliseconds wait) const;

    sender_options options_;
    outbound& out_;
    ports::publisher& publisher_;
    stop_flag const& stop_;
    core::logger& log_;
    std::unordered_map<std::int64_t, sent> unanswered_;  // by row
    handed_over answers_;
    clock::time_point answers_since_{};
};

}  // namespace skald::runtime
