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

}  // namespace

memory_source::pending_dispatch::pending_dispatch(pending_dispatch&& other) noexcept
    : from_{other.from_}, any_at_once_{other.any_at_once_}, messages_{std::exchange(other.messages_, 0)},
      bytes_{std::exchange(other.bytes_, 0)}, good_until_{other.good_until_}
{}

memory_source::pending_dispatch::~pending_dispatch()
{
    if (messages_ > 0) from_->cancel(messages_, bytes_);
}

void memory_source::pending_dispatch::dispatch(ports::changes& committed)
{
    if (messages_ == 0 || clock::now() >= good_until_) {
        if (any_at_once_) from_->notify();
        return;
    }
    std::deque<item> items;
    for (auto& one : committed.messages) {
        if (!one.row) continue;
        auto const bytes = bytes_of(one.message);
        items.push_back({{*one.row, 0, std::move(one.message), !one.if_unrouted.empty()}, bytes, good_until_});
    }
    SKALD_ASSERT(items.size() == messages_);
    std::lock_guard const lock{from_->mutex_};
    if (from_->publisher_ == nullptr) return;  // closed meanwhile: the rows come due
    bool const is_first = from_->queue_.empty();
    for (auto& one : items) from_->queue_.push_back(std::move(one));
    from_->pending_ -= std::exchange(messages_, 0);
    if (is_first) from_->publisher_->interrupt();
}

memory_source::pending_dispatch memory_source::prepare(ports::store& store, ports::changes& changes)
{
    std::size_t messages = 0, bytes = 0;
    for (auto const& one : changes.messages)
        if (goes_at_once(one)) ++messages, bytes += bytes_of(one.message);
    pending_dispatch pending{*this, messages > 0};
    if (messages == 0 || !reserve(messages, bytes)) return pending;
    pending.messages_ = messages;
    pending.bytes_ = bytes;
    auto const rows = store.new_rows(messages);
    if (rows.size() != messages) return pending;  // `good_until_` stays in the past: the table sends them
    // Half of the grace period is for the confirm, and for the row to be deleted.
    pending.good_until_ = clock::now() + options_.grace_period / 2;
    auto row = rows.begin();
    for (auto& one : changes.messages) {
        if (!goes_at_once(one)) continue;
        one.row = *row++;
        one.grace_period = options_.grace_period;
    }
    return pending;
}

bool memory_source::reserve(std::size_t more, std::size_t bytes)
{
    std::lock_guard const lock{mutex_};
    bool const fits = messages() + more <= options_.messages_max && bytes_ + bytes <= options_.bytes_max;
    if (publisher_ == nullptr || options_.grace_period.count() == 0 || !fits) return false;
    pending_ += more;
    bytes_ += bytes;
    return true;
}

void memory_source::cancel(std::size_t messages, std::size_t bytes)
{
    std::lock_guard const lock{mutex_};
    SKALD_ASSERT(pending_ >= messages && bytes_ >= bytes);
    pending_ -= messages;
    bytes_ -= bytes;
    check_room();
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
            rows.push_back(std::move(next.row));
        }
    }
    if (rows.empty()) return rows;
    SKALD_FAILPOINT("handed.taken");
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
    SKALD_FAILPOINT("handed.confirmed");
    SKALD_FAILPOINT("handed.deleting");
    rows_->resolve(confirmed, now.deferred);
    SKALD_FAILPOINT("handed.deleted");
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
