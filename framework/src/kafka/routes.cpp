#include "kafka/routes.hpp"

#include "core/foreign_message.hpp"
#include "core/identity.hpp"

#include <skald/errors.hpp>

#include <algorithm>

namespace skald::kafka_detail {
namespace {

constexpr std::string_view skalds_exchange = "skald";

void add(std::vector<std::string>& topics, std::string name)
{
    if (auto const why = why_no_topic(name); !why.empty())
        throw configuration_error{"there can be no topic `" + name + "`: " + why};
    if (std::ranges::find(topics, name) == topics.end()) topics.push_back(std::move(name));
}

}  // namespace

routes::routes(ports::subscriber const& who) : service_{who.service}
{
    all_.push_back({{}, who.prefetch});
    by_destination_.emplace(who.service, 0);
    add(own_topics_, topic_of(who.service));
    for (auto const& one : who.handlers) {
        auto const to = all_.size();
        all_.push_back({one.handler, one.prefetch});
        by_destination_.emplace(core::handler_destination(who.service, one.handler), to);
        for (auto const& wanted : one.bindings) bind(wanted, to);
    }
}

void routes::bind(message_binding const& wanted, std::size_t to)
{
    if (wanted.exchange == skalds_exchange) {
        add(own_topics_, topic_of(wanted.routing_key));
        by_destination_.emplace(wanted.routing_key, to);
        return;
    }
    if (!wanted.type.empty() || (!wanted.routing_key.empty() && wanted.routing_key != "#"))
        throw configuration_error{"the message handler `" + all_[to].handler + "` is bound to `" + wanted.exchange +
                                  "` by the key `" + wanted.routing_key +
                                  "` or a type, and over Kafka that is a topic, which has neither: leave both out, and "
                                  "the handler gets every record"};
    add(foreign_topics_, wanted.exchange);
    by_foreign_topic_.emplace(wanted.exchange, to);
}

routed_record routes::read(rd_kafka_message_t const& record) const
{
    std::string_view const topic = rd_kafka_topic_name(record.rkt);
    routed_record made;
    if (auto const [first, last] = by_foreign_topic_.equal_range(topic); first != last) {
        made.message = read_foreign(record);
        for (auto one = first; one != last; ++one) made.to.push_back(one->second);
        return made;
    }
    auto own = read_own(record);
    made.message = std::move(own.message);
    made.problem = std::move(own.problem);
    auto const [first, last] = by_destination_.equal_range(made.message.destination);
    if (made.problem.empty())
        for (auto one = first; one != last; ++one) made.to.push_back(one->second);
    if (!made.to.empty() || topic != own_topics_.front()) return made;
    // Sent to this service, and confirmed: it must not vanish.
    made.to.push_back(0);
    if (!made.problem.empty()) return made;
    if (auto const handler = core::handler_of(made.message.destination, service_); core::is_name(handler))
        made.handler = handler;
    else made.problem = "it is for `" + made.message.destination + "`, which this process of the service has not";
    return made;
}

core::message routes::addressed(core::message m, std::size_t to) const
{
    m.destination = to == 0 ? service_ : core::handler_destination(service_, all_[to].handler);
    return m;
}

}  // namespace skald::kafka_detail
