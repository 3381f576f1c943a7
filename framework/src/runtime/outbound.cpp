#include "runtime/outbound.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// What a message weighs besides its texts: strings, headers, its places in the queue and in the window.
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

template <class T>
void append(std::vector<T>& to, std::vector<T>&& more)
{
    to.insert(to.end(), std::move_iterator{more.begin()}, std::move_iterator{more.end()});
}

}  // namespace

outbound::departure::departure(departure&& other) noexcept
    : out_{other.out_}, any_at_once_{other.any_at_once_}, messages_{std::exchange(other.messages_, 0)},
      bytes_{std::exchange(other.bytes_, 0)}, good_until_{other.good_until_}
{}

outbound::departure::~departure()
{
    if (messages_ > 0) out_->leave_room(messages_, bytes_);
}

void outbound::departure::hand_over(ports::changes& committed)
{
    if (messages_ == 0 || clock::now() >= good_until_) {
        if (any_at_once_) out_->notify();
        return;
    }
    std::vector<item> items;
    items.reserve(messages_);
    for (auto& one : committed.messages) {
        if (!one.row) continue;
        auto const bytes = bytes_of(one.message);
        items.push_back({{*one.row, std::move(one.message)}, bytes, good_until_});
    }
    std::lock_guard const lock{out_->mutex_};
    if (out_->publisher_ == nullptr) return;  // closed meanwhile: the rows come due
    bool const is_first = out_->queue_.empty();
    append(out_->queue_, std::move(items));
    messages_ = 0;  // the sender's now
    if (is_first) out_->publisher_->interrupt();
}

outbound::departure outbound::prepare(ports::store& store, ports::changes& changes)
{
    std::size_t messages = 0, bytes = 0;
    for (auto const& one : changes.messages)
        if (goes_at_once(one)) ++messages, bytes += bytes_of(one.message);
    departure leaving{*this, messages > 0};
    if (messages == 0 || !reserve(messages, bytes)) return leaving;
    leaving.messages_ = messages;
    leaving.bytes_ = bytes;
    // Half of the head start is for the confirm, and for the row to be deleted.
    leaving.good_until_ = clock::now() + options_.head_start / 2;

    auto const rows = store.new_rows(messages);
    if (rows.size() != messages) {
        leave_room(std::exchange(leaving.messages_, 0), bytes);
        return leaving;
    }
    auto row = rows.begin();
    for (auto& one : changes.messages) {
        if (!goes_at_once(one)) continue;
        one.row = *row++;
        one.head_start = options_.head_start;
    }
    return leaving;
}

bool outbound::reserve(std::size_t messages, std::size_t bytes)
{
    std::lock_guard const lock{mutex_};
    bool const fits = messages_ + messages <= options_.messages_max && bytes_ + bytes <= options_.bytes_max;
    if (publisher_ == nullptr || options_.head_start.count() == 0 || !fits) return false;
    messages_ += messages;
    bytes_ += bytes;
    return true;
}

void outbound::leave_room(std::size_t messages, std::size_t bytes)
{
    std::lock_guard const lock{mutex_};
    messages_ -= messages;
    bytes_ -= bytes;
}

void outbound::notify()
{
    {
        std::lock_guard const lock{mutex_};
        notified_ = true;
    }
    changed_.notify_one();
}

bool outbound::wait(std::chrono::milliseconds longest)
{
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, longest, [this] { return notified_ || !answers_.empty(); });
    return std::exchange(notified_, false);
}

handed_over outbound::take_answers()
{
    std::lock_guard const lock{mutex_};
    return std::exchange(answers_, {});
}

void outbound::answer(handed_over answers)
{
    {
        std::lock_guard const lock{mutex_};
        append(answers_.confirmed, std::move(answers.confirmed));
        append(answers_.failed, std::move(answers.failed));
    }
    changed_.notify_one();
}

void outbound::open(ports::publisher& publisher)
{
    std::lock_guard const lock{mutex_};
    publisher_ = &publisher;
}

void outbound::close()
{
    std::lock_guard const lock{mutex_};
    publisher_ = nullptr;
    for (auto const& one : std::exchange(queue_, {})) {
        --messages_;
        bytes_ -= one.bytes;
    }
}

std::vector<outbound::item> outbound::take(std::size_t max)
{
    std::lock_guard const lock{mutex_};
    if (queue_.size() <= max) return std::exchange(queue_, {});
    auto const end = queue_.begin() + static_cast<std::ptrdiff_t>(max);
    std::vector<item> taken{std::move_iterator{queue_.begin()}, std::move_iterator{end}};
    queue_.erase(queue_.begin(), end);
    return taken;
}

}  // namespace skald::runtime
