// What was just committed, on its way to the broker: handed over in memory, with its row in
// the outbox as the insurance.
//
// Before COMMIT a message gets its row's number and a head start: the row comes due only when that is over, so that no
// relay takes it meanwhile. After COMMIT it is handed to the sender (runtime/sender.hpp), which publishes it at once;
// when the broker has confirmed it, the relay deletes the row, many at a time. Whatever goes wrong in between, the row
// comes due and any relay publishes it: twice at most, which the guard absorbs. See
// docs/adr/0013-handed-over-in-memory.md.
//
// What there is no room for, or no broker, or what is to go later, is left to the relay as before.
#pragma once

#include "ports/store.hpp"
#include "ports/transport.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace skald::runtime {

struct outbound_options
{
    std::chrono::milliseconds head_start{};  // 0: nothing is handed over
    // Together with what waits for its confirm.
    std::size_t messages_max{5'000};
    std::size_t bytes_max{16 * 1024 * 1024};
};

/// What became of messages that were handed over, for the relay to write down. What is in neither comes due by itself.
struct handed_over
{
    struct failed_message
    {
        std::int64_t row{};
        std::string key;
        std::string destination;
        std::string reason;
    };

    std::vector<std::int64_t> confirmed;
    std::vector<failed_message> failed;

    bool empty() const { return confirmed.empty() && failed.empty(); }
};

/// One for a process. Threads: any, but where it says otherwise.
class outbound
{
public:
    using clock = std::chrono::steady_clock;

    explicit outbound(outbound_options options = {}) : options_{options} {}
    outbound(outbound const&) = delete;
    outbound& operator=(outbound const&) = delete;

    /// A transaction's messages between prepare() and the end of its COMMIT. Threads: one.
    class departure
    {
    public:
        departure(departure&& other) noexcept;
        departure& operator=(departure&&) = delete;

        /// Nobody is told where hand_over() was not called: after a COMMIT in doubt the rows come due, or do not exist.
        ~departure();

        /// To be called after COMMIT, and only then. Takes the messages out of `committed`.
        void hand_over(ports::changes& committed);

    private:
        friend class outbound;
        departure(outbound& out, bool any) : out_{&out}, any_at_once_{any} {}

        outbound* out_;
        bool any_at_once_;
        std::size_t messages_{};  // that there is room for
        std::size_t bytes_{};
        clock::time_point good_until_{};
    };

    /// To be called right before COMMIT: decides which of the messages will be handed over, all that go at once or
    /// none, and marks them. Throws what `store` throws.
    departure prepare(ports::store& store, ports::changes& changes);

    // --- The relay's side ---

    /// There may be something due that nobody has handed over.
    void notify();

    /// Returns when notified, also where that happened before the call, when there is something to write down, or after
    /// `longest`. Whether something may be due.
    bool wait(std::chrono::milliseconds longest);

    handed_over take_answers();

    // --- The sender's side ---

    struct item
    {
        ports::outgoing message;
        std::size_t bytes{};
        clock::time_point good_until{};  // later it must not be sent: its row may be due
    };

    /// From now on messages are taken; `publisher` is interrupted when there are some. It must live until close().
    void open(ports::publisher& publisher);

    /// Takes no more. What was handed over and not taken is forgotten: its rows come due.
    void close();

    /// Everything that was handed over since, at most `max`.
    std::vector<item> take(std::size_t max);

    /// So many are off the sender's hands.
    void leave_room(std::size_t messages, std::size_t bytes);

    void answer(handed_over answers);

private:
    bool reserve(std::size_t messages, std::size_t bytes);

    outbound_options const options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool notified_{};
    handed_over answers_;
    ports::publisher* publisher_{};  // while open
    std::vector<item> queue_;
    std::size_t messages_{};  // reserved, in the queue, or with the sender
    std::size_t bytes_{};
};

}  // namespace skald::runtime
