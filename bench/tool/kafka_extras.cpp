#include "kafka_extras.hpp"

#ifdef BENCH_OVER_KAFKA

#include "kafka/administration.hpp"
#include "support/kafka_topics.hpp"

namespace skald_bench {

int consumers_in_kafka(std::string const& brokers, std::string const& service)
{
    skald::kafka_detail::options where;
    where.brokers = brokers;
    return skald::kafka_detail::inspector{where, {service}}.look().members;
}

void empty_kafka(std::string const& brokers, std::vector<std::string> const& services)
{
    std::vector<std::string> topics;
    for (auto const& one : services) topics.push_back("skald." + one);
    skald::test::delete_topics(brokers, topics);
}

}  // namespace skald_bench

#else

#include <stdexcept>

namespace skald_bench {

int consumers_in_kafka(std::string const&, std::string const&)
{
    throw std::runtime_error{"this was built without librdkafka"};
}

void empty_kafka(std::string const&, std::vector<std::string> const&)
{
    throw std::runtime_error{"this was built without librdkafka"};
}

}  // namespace skald_bench

#endif
