#include "transports/mailbox.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace skald::transports {
namespace {

constexpr std::chrono::milliseconds wait_max{std::chrono::hours{24}};

}  // namespace

std::vector<ports::delivery> mailbox::take(std::size_t max, std::chrono::milliseconds wait)
{
    std::unique_lock lock{mutex_};
    // A caller that waits indefinitely would overflow the clock.
    arrived_.wait_for(lock, std::min(wait, wait_max), [&] { return !untaken_.empty() || requests_.stop; });
    SKALD_ASSERT(!requests_.stop || untaken_.empty());  // stop() has returned them, and deliver() accepts none
    auto const count = static_cast<std::ptrdiff_t>(std::min(max, untaken_.size()));
    std::vector<ports::delivery> taken{std::move_iterator{untaken_.begin()},
                                       std::move_iterator{untaken_.begin() + count}};
    untaken_.erase(untaken_.begin(), untaken_.begin() + count);
    // Another caller may have been woken for what is left.
    if (!untaken_.empty()) arrived_.notify_one();
    return taken;
}

void mailbox::ack(ports::delivery_tag tag)
{
    std::lock_guard lock{mutex_};
    requests_.acks.push_back(tag);
    // If others are waiting, the thread has been woken already, and will send them all in few frames.
    if (requests_.acks.size() == 1) wake_.wake();
}

void mailbox::requeue(ports::delivery_tag tag)
{
    std::lock_guard lock{mutex_};
    requests_.requeues.push_back(tag);
    wake_.wake();
}

void mailbox::stop()
{
    std::lock_guard lock{mutex_};
    if (requests_.stop) return;
    requests_.stop = true;
    for (auto const& delivery : untaken_) requests_.requeues.push_back(delivery.tag);
    untaken_.clear();
    last_error_ = "stopped";
    wake_.wake();
    arrived_.notify_all();
    ended_.notify_all();
}

void mailbox::close()
{
    stop();
    std::lock_guard lock{mutex_};
    requests_.close = true;
    wake_.wake();
    ended_.notify_all();
}

bool mailbox::available() const
{
    std::lock_guard lock{mutex_};
    return connected_ && !requests_.stop;
}

std::string mailbox::last_error() const
{
    std::lock_guard lock{mutex_};
    return last_error_;
}

requests mailbox::collect()
{
    wake_.clear();
    std::lock_guard lock{mutex_};
    requests collected;
    collected.acks = std::exchange(requests_.acks, {});
    collected.requeues = std::exchange(requests_.requeues, {});
    collected.stop = requests_.stop;
    collected.close = requests_.close;
    return collected;
}

std::vector<ports::delivery> mailbox::deliver(std::vector<ports::delivery> arrived)
{
    std::lock_guard lock{mutex_};
    if (requests_.stop) return arrived;
    std::ranges::move(arrived, std::back_inserter(untaken_));
    arrived_.notify_one();
    return {};
}

void mailbox::connected()
{
    std::lock_guard lock{mutex_};
    connected_ = true;
    if (!requests_.stop) last_error_.clear();
}

void mailbox::disconnected(std::string const& why)
{
    std::lock_guard lock{mutex_};
    connected_ = false;
    untaken_.clear();
    if (!requests_.stop) last_error_ = why;
}

bool mailbox::wait_to_reconnect(std::chrono::steady_clock::time_point until)
{
    std::unique_lock lock{mutex_};
    // After a stop no new deliveries are wanted, and the acks of old ones are void with their connection.
    return !ended_.wait_until(lock, until, [&] { return requests_.stop; });
}

}  // namespace skald::transports
