// The relay: moves committed outbox rows to the transport.
//
// It publishes first and deletes afterwards, so that a crash in between publishes twice and never zero times; the guard
// absorbs the second. A row leaves only on its own confirm. Safe with any number of relays on one outbox.
// While the broker is away it holds no transaction open (traps R8).
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/stop_flag.hpp"
#include "runtime/wakeup.hpp"

#include <chrono>
#include <random>

namespace skald::runtime {

struct relay_options
{
    std::size_t batch_max{500};
    std::chrono::milliseconds poll{200};       // the guarantee; the wake-up is the speed
    std::chrono::milliseconds deadline{5'000};  // for the confirms of a batch, while its rows are taken
    core::backoff put_off{std::chrono::milliseconds{250}, std::chrono::milliseconds{15'000}};
};

/// Threads: run() on one thread.
class relay
{
public:
    relay(relay_options options, ports::outbox& outbox, ports::publisher& publisher, wakeup& wake, stop_flag const& stop,
          core::logger& log, std::mt19937_64 random);

    /// Until `stop`, and then once more for what was committed last.
    void run();

    /// Moves one batch; returns how many rows left. Throws ports::fault.
    std::size_t move_batch();

private:
    std::size_t try_to_move();
    void settle(std::vector<ports::outbox::row> const& rows, std::vector<ports::receipt> const& receipts);
    void tell_trouble(std::string const& trouble);

    relay_options options_;
    ports::outbox& outbox_;
    ports::publisher& publisher_;
    wakeup& wake_;
    stop_flag const& stop_;
    core::logger& log_;
    std::mt19937_64 random_;
    core::backoff backoff_{};
    int failures_in_a_row_{};
    std::string trouble_;
};

}  // namespace skald::runtime
