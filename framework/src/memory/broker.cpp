#include "memory/broker.hpp"

#include "core/foreign_message.hpp"
#include "transports/message_limits.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace skald::memory {
namespace {

constexpr std::string_view skalds_exchange = "skald";

}  // namespace

using ports::publish_status;

ports::receipt broker::publish(ports::outgoing const& sent)
{
    auto const& [row, message] = sent;
    if (auto why = transports::why_never_sent(message); !why.empty())
        return {row, publish_status::refused, std::move(why)};

    std::lock_guard lock{mutex_};
    if (down_) return {row, publish_status::unresolved, "the broker is down"};
    if (!blocked_.empty()) return {row, publish_status::unresolved, "blocked by the broker: " + blocked_};
    if (nacks_due_ > 0) {
        --nacks_due_;
        return {row, publish_status::nacked, "the broker did not take the message"};
    }
    // To a queue that is nobody's here: a reply.
    auto const exchange = core::find_header(message.headers, core::header::exchange).value_or(skalds_exchange);
    if (exchange != skalds_exchange) {
        if (!exchange.empty())
            return {row, publish_status::barred, "404 NOT_FOUND - no exchange '" + std::string{exchange} + "'"};
        captured_.push_back(message);
        return {row, publish_status::confirmed, {}};
    }
    if (!queues_.contains(message.destination) && !handlers_.contains(message.destination))
        return {row, publish_status::returned, "312 NO_ROUTE: no queue is bound for `" + message.destination + "`"};
    captured_.push_back(message);
    enqueue(message, {});
    if (lost_confirms_due_ > 0) {
        --lost_confirms_due_;
        return {row, publish_status::unresolved, "the confirm was lost"};
    }
    return {row, publish_status::confirmed, {}};
}

// A copy for each queue that is bound.
void broker::enqueue(core::message const& message, std::string const& problem)
{
    auto const at = handlers_.find(message.destination);
    if (at == handlers_.end() || queues_.contains(message.destination)) push(message.destination, {}, message, problem);
    if (at == handlers_.end()) return;
    for (auto const& [service, handler] : at->second) push(service, handler, message, problem);
}

void broker::push(std::string const& service, std::string const& handler, core::message message, std::string problem)
{
    auto const order = ++last_order_;
    item arrived{order, std::move(message), std::move(problem), 0, false, handler};
    if (!handler.empty()) arrived.message.destination = core::handler_destination(service, handler);
    queues_[service].emplace(order, std::move(arrived));
    changed_.notify_all();
}

std::string broker::publishers_last_error() const
{
    std::lock_guard lock{mutex_};
    if (down_) return "the broker is down";
    return blocked_.empty() ? "" : "blocked by the broker: " + blocked_;
}

std::uint64_t broker::subscribe(ports::subscriber const& who)
{
    std::lock_guard lock{mutex_};
    queues_[who.service];
    for (auto const& one : who.handlers) {
        std::pair const to{who.service, one.handler};
        handlers_[core::handler_destination(who.service, one.handler)].insert(to);
        for (auto const& wanted : one.bindings)
            if (wanted.exchange == skalds_exchange) handlers_[wanted.routing_key].insert(to);
    }
    consumers_[++last_consumer_] = {who.service, who.prefetch, false, {}};
    return last_consumer_;
}

bool broker::can_take(consumer_state const& who) const
{
    return !down_ && who.unacked.size() < who.prefetch && !queues_.at(who.service).empty();
}

std::vector<ports::delivery> broker::take(std::uint64_t consumer, std::size_t max, std::chrono::milliseconds wait)
{
    std::unique_lock lock{mutex_};
    auto& who = consumers_.at(consumer);
    // A wait of "forever" would overflow the clock.
    std::chrono::milliseconds const longest = std::chrono::hours{24};
    changed_.wait_for(lock, std::min(wait, longest), [&] { return who.stopped || can_take(who); });
    std::vector<ports::delivery> taken;
    while (!who.stopped && taken.size() < max && can_take(who)) {
        auto node = queues_.at(who.service).extract(queues_.at(who.service).begin());
        auto& next = node.mapped();
        auto const tag = ++last_tag_;
        taken.push_back({{generation_, tag, 1}, next.returns, next.given_up, next.problem, next.message, next.handler});
        who.unacked.emplace(tag, std::move(next));
    }
    return taken;
}

void broker::ack(std::uint64_t consumer, ports::delivery_tag tag)
{
    std::lock_guard lock{mutex_};
    if (tag.generation == generation_) consumers_.at(consumer).unacked.erase(tag.number);
    changed_.notify_all();  // there is room in the prefetch
}

void broker::requeue(std::uint64_t consumer, ports::delivery_tag tag)
{
    std::lock_guard lock{mutex_};
    auto& who = consumers_.at(consumer);
    if (tag.generation == generation_ && who.unacked.contains(tag.number)) give_back(who, tag.number);
    changed_.notify_all();
}

void broker::give_back(consumer_state& from, std::uint64_t tag)
{
    auto node = from.unacked.extract(tag);
    auto& returned = node.mapped();
    if (!returned.given_up && ++returned.returns > delivery_limit) {
        // On a real broker it goes to another queue, where it is no longer a redelivery.
        returned.given_up = true;
        returned.returns = 0;
    }
    auto const order = returned.order;
    queues_.at(from.service).emplace(order, std::move(returned));
}

void broker::give_back_all(consumer_state& from)
{
    while (!from.unacked.empty()) give_back(from, from.unacked.begin()->first);
}

void broker::stop(std::uint64_t consumer)
{
    std::lock_guard lock{mutex_};
    consumers_.at(consumer).stopped = true;
    changed_.notify_all();
}

void broker::unsubscribe(std::uint64_t consumer)
{
    std::lock_guard lock{mutex_};
    give_back_all(consumers_.at(consumer));
    consumers_.erase(consumer);
    changed_.notify_all();
}

std::string broker::last_error_of(std::uint64_t consumer) const
{
    std::lock_guard lock{mutex_};
    if (consumers_.at(consumer).stopped) return "stopped";
    return down_ ? "the broker is down" : "";
}

void broker::declare(std::string const& service)
{
    std::lock_guard lock{mutex_};
    queues_[service];
}

void broker::inject(core::message const& message, std::string const& problem)
{
    std::lock_guard lock{mutex_};
    enqueue(message, problem);
}

void broker::go_down()
{
    std::lock_guard lock{mutex_};
    down_ = true;
    ++generation_;  // acks of earlier deliveries have no effect any more
    for (auto& [name, who] : consumers_) give_back_all(who);
    changed_.notify_all();
}

void broker::come_back()
{
    std::lock_guard lock{mutex_};
    down_ = false;
    changed_.notify_all();
}

void broker::block(std::string reason)
{
    std::lock_guard lock{mutex_};
    blocked_ = std::move(reason);
}

void broker::unblock()
{
    std::lock_guard lock{mutex_};
    blocked_.clear();
}

void broker::nack_next(std::size_t count)
{
    std::lock_guard lock{mutex_};
    nacks_due_ = count;
}

void broker::lose_next_confirms(std::size_t count)
{
    std::lock_guard lock{mutex_};
    lost_confirms_due_ = count;
}

std::vector<core::message> broker::captured() const
{
    std::lock_guard lock{mutex_};
    return captured_;
}

std::size_t broker::waiting(std::string const& service) const
{
    std::lock_guard lock{mutex_};
    auto const found = queues_.find(service);
    return found == queues_.end() ? 0 : found->second.size();
}

}  // namespace skald::memory
