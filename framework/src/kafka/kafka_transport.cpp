#include "kafka/kafka_transport.hpp"

#include "kafka/kafka_publisher.hpp"
#include "kafka/kafka_subscription.hpp"

#include <random>
#include <stdexcept>

namespace skald::kafka_detail {

std::uint64_t kafka_transport::next_seed() const
{
    return options_.seed != 0 ? options_.seed : std::random_device{}();
}

property_list connection_properties(options const& settings)
{
    property_list all{{"client.id", settings.name}};
    all.insert(all.end(), settings.properties.begin(), settings.properties.end());
    all.emplace_back("bootstrap.servers", settings.brokers);
    return all;
}

std::unique_ptr<ports::publisher> kafka_transport::open_publisher()
{
    return std::make_unique<kafka_publisher>(connection_properties(options_), options_.reconnect, next_seed(), log_);
}

std::unique_ptr<ports::subscription> kafka_transport::subscribe(ports::subscriber const& who)
{
    if (who.service.empty()) throw std::invalid_argument{"a service's name must not be empty"};
    if (who.prefetch == 0) throw std::invalid_argument{"a prefetch of 0 would be unlimited"};
    routes const checked{who};  // throws
    return std::make_unique<kafka_subscription>(consumer_settings{connection_properties(options_), who, options_.shape,
                                                                  options_.declares, options_.drain, options_.guarded},
                                                options_.reconnect, next_seed(), log_);
}

}  // namespace skald::kafka_detail
