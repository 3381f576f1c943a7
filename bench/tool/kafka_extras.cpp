#include "kafka_extras.hpp"

#ifdef BENCH_OVER_KAFKA

#include "kafka/administration.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

namespace skald_bench {
namespace {

namespace kafka = skald::kafka_detail;
using namespace std::chrono_literals;

constexpr int answer_within_ms = 30'000;

using delete_topic_ptr = std::unique_ptr<rd_kafka_DeleteTopic_t, kafka::destroyer<rd_kafka_DeleteTopic_destroy>>;

}  // namespace

int consumers_in_kafka(std::string const& brokers, std::string const& service)
{
    kafka::options where;
    where.brokers = brokers;
    return kafka::inspector{where, {service}}.look().members;
}

void empty_kafka(std::string const& brokers, std::vector<std::string> const& services)
{
    kafka::listener nobody;
    kafka::client any{RD_KAFKA_PRODUCER, {{"bootstrap.servers", brokers}}, nobody};
    std::vector<delete_topic_ptr> owned;
    std::vector<rd_kafka_DeleteTopic_t*> wanted;
    for (auto const& one : services) {
        owned.emplace_back(rd_kafka_DeleteTopic_new(("skald." + one).c_str()));
        wanted.push_back(owned.back().get());
    }
    kafka::queue_ptr const answers{rd_kafka_queue_new(any.raw())};
    rd_kafka_DeleteTopics(any.raw(), wanted.data(), wanted.size(), nullptr, answers.get());
    kafka::event_ptr const answer{rd_kafka_queue_poll(answers.get(), answer_within_ms)};
    if (!answer) throw kafka::kafka_error{"Kafka does not delete topics"};
    auto const is_there = [&](std::string const& service) {
        auto const all = any.topics(5s);
        return std::ranges::find(all, "skald." + service) != all.end();
    };
    // Between two polls: Kafka answers before it is done.
    while (std::ranges::any_of(services, is_there)) std::this_thread::sleep_for(50ms);
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
