// The relay: moves committed outbox rows to the transport.
//
// It publishes first and deletes afterwards, so that a crash in between publishes twice and never zero times; the guard
// absorbs the second. A row leaves only on its own confirm. Safe with any number of relays on one outbox.
// While the broker is away it holds no transaction open (traps R8).
//
// What the sender has published from memory it only deletes. What it polls is what was left behind: rows whose time has
// come, rows of other languages, rows that nobody could hand over.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/outbound.hpp"
#include "runtime/stop_flag.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace skald::runtime {

struct relay_options
{
    std::size_t batch_max{500};
    std::chrono::milliseconds poll{200};        // the guarantee; the wake-up is the speed
    std::chrono::milliseconds deadline{5'000};  // for the confirms of a batch, while its rows are taken
    core::backoff put_off{std::chrono::milliseconds{250}, std::chrono::milliseconds{15'000}};
};

/// Threads: run() on one thread.
class relay
{
public:
    /// With two outboxes (connections to the same table) a batch is fetched and sent while the one before awaits its
    /// confirms; with one they take turns.
    relay(relay_options options, std::vector<std::reference_wrapper<ports::outbox>> outboxes,
          ports::publisher& publisher, outbound& out, stop_flag const& stop, core::logger& log, std::mt19937_64 random);

    /// Until `stop`, and then once more for what was committed last.
    void run();

    /// Moves what is due, batch after batch, until none is left, something could not be sent, or `stop`. Returns how
    /// many rows left. Throws ports::fault.
    std::size_t move_due();

private:
    struct batch
    {
        ports::outbox* from;
        std::int64_t first;  // the number under which its first message was sent
        std::vector<ports::outbox::row> rows;
        std::vector<ports::receipt> receipts;  // by position; unresolved until they come
        std::size_t unanswered{};
        std::chrono::steady_clock::time_point until{};
    };

    std::size_t try_to_move();
    void write_down_answers();
    std::size_t fetch();
    std::size_t finish_oldest();
    void await(batch const& awaited);
    void note(ports::receipt&& receipt);
    void settle(batch const& answered);
    void release_all() noexcept;
    ports::outbox::put_off put_off(std::int64_t row, int attempts, std::string const& key,
                                   std::string const& destination, std::string const& reason);
    void tell_trouble(std::string const& trouble);

    relay_options options_;
    std::vector<std::reference_wrapper<ports::outbox>> free_;  // without a batch in hand
    std::deque<batch> under_way_;                              // the oldest first
    std::int64_t sent_{};
    ports::publisher& publisher_;
    outbound& out_;
    stop_flag const& stop_;
    core::logger& log_;
    std::mt19937_64 random_;
    core::backoff backoff_{};
    int failures_in_a_row_{};
    std::string trouble_;
};

}  // namespace skald::runtime
