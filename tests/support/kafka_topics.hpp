// Removes topics, so that nothing is left of an earlier run: no record, and nothing that a group has committed. And
// changes what they are.
#pragma once

#include "kafka/client.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::test {

/// Waits until they are gone. Throws std::runtime_error.
inline void delete_topics(std::string const& brokers, std::vector<std::string> const& names)
{
    namespace kafka = kafka_detail;
    using delete_topic_ptr = std::unique_ptr<rd_kafka_DeleteTopic_t, kafka::destroyer<rd_kafka_DeleteTopic_destroy>>;
    constexpr std::chrono::seconds patience{30};
    kafka::listener nobody;
    kafka::client any{RD_KAFKA_PRODUCER, {{"bootstrap.servers", brokers}}, nobody};
    std::vector<delete_topic_ptr> owned;
    std::vector<rd_kafka_DeleteTopic_t*> wanted;
    for (auto const& one : names) {
        owned.emplace_back(rd_kafka_DeleteTopic_new(one.c_str()));
        wanted.push_back(owned.back().get());
    }
    kafka::queue_ptr const answers{rd_kafka_queue_new(any.raw())};
    rd_kafka_DeleteTopics(any.raw(), wanted.data(), wanted.size(), nullptr, answers.get());
    kafka::event_ptr const answer{
        rd_kafka_queue_poll(answers.get(), static_cast<int>(std::chrono::milliseconds{patience}.count()))};
    if (!answer) throw std::runtime_error{"Kafka deletes no topics"};
    // Kafka answers before it is done.
    auto const until = std::chrono::steady_clock::now() + patience;
    for (auto all = any.topics(patience); std::chrono::steady_clock::now() < until; all = any.topics(patience))
        if (std::ranges::none_of(names, [&](auto const& one) { return std::ranges::find(all, one) != all.end(); }))
            return;
    throw std::runtime_error{"Kafka has not deleted its topics in time"};
}

/// Sets these properties of a topic, and all its others to their defaults. Throws std::runtime_error.
inline void set_alone(std::string const& brokers, std::string const& topic,
                      std::map<std::string, std::string> const& properties)
{
    namespace kafka = kafka_detail;
    using resource_ptr = std::unique_ptr<rd_kafka_ConfigResource_t, kafka::destroyer<rd_kafka_ConfigResource_destroy>>;
    kafka::listener nobody;
    kafka::client any{RD_KAFKA_PRODUCER, {{"bootstrap.servers", brokers}}, nobody};
    resource_ptr const owned{rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str())};
    for (auto const& [name, value] : properties)
        rd_kafka_ConfigResource_set_config(owned.get(), name.c_str(), value.c_str());
    auto* wanted = owned.get();
    kafka::queue_ptr const answers{rd_kafka_queue_new(any.raw())};
    rd_kafka_AlterConfigs(any.raw(), &wanted, 1, nullptr, answers.get());
    kafka::event_ptr const answer{rd_kafka_queue_poll(answers.get(), 30'000)};
    if (!answer || rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error{"Kafka alters no topics"};
}

}  // namespace skald::test
