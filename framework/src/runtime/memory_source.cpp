#include "runtime/memory_source.hpp"

#include "core/assert.hpp"

#include "core/failpoint.hpp"

#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// What a message weighs in addition to its texts: strings, headers, its places in the queue and in the window.
constexpr std::size_t message_overhead = 512;

std::size_t bytes_of(core::message const& m)
{
    auto bytes = message_overhead + m.body.size() + m.id.size() + m.type.size() + m.destination.size();
    for (auto const& [name, value] : m.headers) bytes += name.size() + value.size() + 2 * sizeof(std::string);
    return bytes;
}

bool goes_at_once(ports::enqueued const& e)
{
    return e.delay.count() == 0;
}

// No relay takes these rows before the grace period is over.
void number(std::vector<ports::enqueued>& messages, std::vector<std::int64_t> const& rows,
            std::chrono::milliseconds grace_period)
{
    auto row = rows.begin();
    for (auto& one : messages) {
        if (!goes_at_once(one)) continue;
        one.row = *row++;
        one.grace_period = grace_period;
    }
}

}  // namespace

// Room for the messages of one transaction, if there is any, from before its COMMIT until they are dispatched.
class memory_source::reservation
{
public:
    reservation(memory_source& in, std::size_t messages, std::size_t bytes) : in_{in}
    {
        std::lock_guard const lock{in_.mutex_};
        auto const& max = in_.options_;
        bool const fits = in_.messages() + messages <= max.messages_max && in_.bytes_ + bytes <= max.bytes_max;
        if (in_.publisher_ == nullptr || max.grace_period.count() == 0 || !fits) return;
        messages_ = messages;
        bytes_ = bytes;
        in_.pending_ += messages;
        in_.bytes_ += bytes;
    }

    ~reservation()
    {
        if (messages_ == 0) return;
        std::lock_guard const lock{in_.mutex_};
        SKALD_ASSERT(in_.pending_ >= messages_ && in_.bytes_ >= bytes_);
        in_.pending_ -= messages_;
        in_.bytes_ -= bytes_;
        in_.check_room();
    }

    reservation(reservation const&) = delete;
    reservation& operator=(reservation const&) = delete;

    std::size_t messages() const { return messages_; }

    /// With the mutex held: the messages are in the queue, and count there.
    void used() { in_.pending_ -= std::exchange(messages_, 0); }

private:
    memory_source& in_;
    std::size_t messages_{};
    std::size_t bytes_{};
};

void memory_source::commit(ports::store& store, ports::changes& changes, std::function<void()> const& after_commit)
{
    keep_large_bodies(changes, options_.bodies);
    std::size_t messages = 0, bytes = 0;
    for (auto const& one : changes.messages)
        if (goes_at_once(one)) ++messages, bytes += bytes_of(one.message);
    reservation room{*this, messages, bytes};
    auto const rows = room.messages() > 0 ? store.new_rows(messages) : std::vector<std::int64_t>{};
    bool const has_rows = messages > 0 && rows.size() == messages;
    // Half of the grace period is for the confirm, and for the row to be deleted.
    auto const good_until = clock::now() + options_.grace_period / 2;
    if (has_rows) number(changes.messages, rows, options_.grace_period);
    store.commit(changes);
    after_commit();
    if (has_rows && clock::now() < good_until) dispatch(changes, room, good_until);
    else if (messages > 0) notify();
}

void memory_source::dispatch(ports::changes& committed, reservation& room, clock::time_point good_until)
{
    std::deque<item> items;
    for (auto& one : committed.messages) {
        if (!one.row) continue;
        auto const bytes = bytes_of(one.message);
        items.push_back({{*one.row, 0, std::move(one.message), !one.if_unrouted.empty()}, bytes, good_until});
    }
    SKALD_ASSERT(items.size() == room.messages());
    std::lock_guard const lock{mutex_};
    if (publisher_ == nullptr) return;  // closed meanwhile: the rows come due
    bool const is_first = queue_.empty();
    for (auto& one : items) queue_.push_back(std::move(one));
    room.used();
    if (is_first) publisher_->interrupt();
}

void memory_source::check_room() const
{
    SKALD_ASSERT(messages() <= options_.messages_max && bytes_ <= options_.bytes_max);
    SKALD_ASSERT((messages() == 0) == (bytes_ == 0));
}

void memory_source::close()
{
    std::lock_guard const lock{mutex_};
    publisher_ = nullptr;
    for (auto const& one : std::exchange(queue_, {})) bytes_ -= one.bytes;
    check_room();
}

std::vector<ports::outbox::row> memory_source::poll(std::size_t max)
{
    std::vector<ports::outbox::row> rows;
    {
        std::lock_guard const lock{mutex_};
        for (auto const now = clock::now(); !queue_.empty() && rows.size() < max; queue_.pop_front()) {
            auto& next = queue_.front();
            if (now >= next.good_until) {
                bytes_ -= next.bytes;
                continue;
            }
            under_way_[next.row.id] = next.bytes;
            next.row.waited = now - (next.good_until - options_.grace_period / 2);
            rows.push_back(std::move(next.row));
        }
    }
    if (rows.empty()) return rows;
    SKALD_FAILPOINT("memory.taken");
    return rows;
}

std::size_t memory_source::resolve(answers now)
{
    leave_room(now.confirmed);
    leave_room(now.unresolved);
    for (auto const& one : now.deferred) leave_room({one.id});
    if (confirmed_.empty()) answered_since_ = clock::now();
    confirmed_.insert(confirmed_.end(), now.confirmed.begin(), now.confirmed.end());

    bool const is_time =
        confirmed_.size() >= options_.delete_at_once || clock::now() >= answered_since_ + options_.delete_after;
    if (now.deferred.empty() && (confirmed_.empty() || !is_time)) return 0;
    auto const confirmed = std::exchange(confirmed_, {});  // if it fails they come due, and are sent twice
    SKALD_FAILPOINT("memory.confirmed");
    SKALD_FAILPOINT("memory.deleting");
    rows_->resolve(confirmed, now.deferred);
    SKALD_FAILPOINT("memory.deleted");
    SKALD_FAILPOINT_IF(!now.deferred.empty(), "relay.deferred");
    return confirmed.size();
}

void memory_source::leave_room(std::vector<std::int64_t> const& answered)
{
    if (answered.empty()) return;
    std::lock_guard const lock{mutex_};
    for (auto const row : answered) {
        auto const found = under_way_.extract(row);
        SKALD_ASSERT(!found.empty());
        if (!found.empty()) bytes_ -= found.mapped();
    }
    check_room();
}

std::chrono::milliseconds memory_source::max_wait() const
{
    if (confirmed_.empty()) return 1h;
    return std::chrono::ceil<std::chrono::milliseconds>(answered_since_ + options_.delete_after - clock::now());
}

bool memory_source::is_idle() const
{
    std::lock_guard const lock{mutex_};
    return under_way_.empty() && confirmed_.empty();
}

// What was confirmed before is deleted all the same.
void memory_source::release() noexcept
{
    std::lock_guard const lock{mutex_};
    for (auto const& [row, bytes] : under_way_) bytes_ -= bytes;
    under_way_.clear();
    check_room();
}

}  // namespace skald::runtime
