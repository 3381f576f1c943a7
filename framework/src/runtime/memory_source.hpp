// What was just committed, sent to the broker from memory, with its row in the outbox as the insurance.
//
// Before COMMIT a message gets its row's number and a dispatch grace period: the row comes due only when that is over,
// so that no relay takes it meanwhile. After COMMIT it is dispatched, sent at once, and its row is deleted once the
// broker has confirmed it. If anything goes wrong in between, the row comes due and any relay publishes it: twice at
// most, which the guard absorbs. Messages for which there is no room or no broker, and those to be sent later, are left
// to the table. See docs/adr/0013-handed-over-in-memory.md and 0018-one-publish-loop.md.
#pragma once

#include "runtime/large_bodies.hpp"
#include "runtime/publish_source.hpp"

#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

namespace skald::runtime {

struct memory_options
{
    std::chrono::milliseconds grace_period{};  // 0: nothing is sent from memory
    // Including what waits for its confirm.
    std::size_t messages_max{5'000};
    std::size_t bytes_max{16 * 1024 * 1024};
    // Rows are deleted together: when there are this many, when one was not taken, or when the first waited this long.
    std::size_t delete_at_once{250};
    std::chrono::milliseconds delete_after{25};
    body_rules bodies{};  // what of a transaction is kept apart from it
};

/// One for a process. Threads: any, for commit() and notify().
class memory_source final : public publish_source
{
public:
    /// `rows`: deletes and defers its rows, on a connection of its own. `table`: the source of what is left to the
    /// table. Both may be null if nothing is ever opened.
    explicit memory_source(memory_options options = {}, ports::outbox* rows = nullptr, publish_source* table = nullptr)
        : options_{std::move(options)}, rows_{rows}, table_{table}
    {}

    /// Commits what `store` has open, with these changes, and then dispatches their messages: all that are to be sent
    /// at once, or none. `after_commit` is called in between. Throws what `store` and `after_commit` throw, and then
    /// dispatches nothing: after a COMMIT in doubt the rows come due, or do not exist. Takes the dispatched messages
    /// out of `changes`.
    void commit(ports::store& store, ports::changes& changes, std::function<void()> const& after_commit);

    /// Writes these changes in a transaction of its own, in which nothing is to be sent at once. Throws as commit().
    void write(ports::store& store, ports::changes& changes) const
    {
        keep_large_bodies(changes, options_.bodies);
        store.write(changes);
    }

    /// There may be something due in the table that was not dispatched.
    void notify()
    {
        if (table_ != nullptr) table_->wake();
    }

    // --- The loop's side ---

    /// What was dispatched and not polled is dropped, and nothing more is taken.
    void close() override;

    std::string_view name() const override { return "memory"; }
    std::vector<ports::outbox::row> poll(std::size_t max) override;
    std::size_t resolve(answers now) override;
    std::chrono::milliseconds max_wait() const override;
    bool is_idle() const override;
    void release() noexcept override;

private:
    struct item
    {
        ports::outbox::row row;
        std::size_t bytes{};
        clock::time_point good_until{};  // after that it must not be sent: its row may be due
    };

    class reservation;

    void dispatch(ports::changes& committed, reservation& room, clock::time_point good_until);
    void leave_room(std::vector<std::int64_t> const& answered);
    std::size_t messages() const { return pending_ + queue_.size() + under_way_.size(); }
    void check_room() const;

    memory_options const options_;
    ports::outbox* const rows_;
    publish_source* const table_;

    // Guarded by the mutex. `bytes_` is their weight in total.
    std::size_t pending_{};  // reserved, and not dispatched
    std::deque<item> queue_;
    std::unordered_map<std::int64_t, std::size_t> under_way_;  // bytes, by row
    std::size_t bytes_{};

    // Used by the loop only.
    std::vector<std::int64_t> confirmed_;
    clock::time_point answered_since_{};
};

}  // namespace skald::runtime
