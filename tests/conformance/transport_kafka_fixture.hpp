// A real Kafka behind a proxy. Its clients are sent to the address that it names, so the proxy listens there:
// scripts/stack.sh starts a node for which it does.
#pragma once

#include "support/recording_logger.hpp"
#include "support/tcp_proxy.hpp"
#include "transport_conformance.hpp"

#include "kafka/kafka_transport.hpp"

#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

namespace skald::test {

namespace kafka = kafka_detail;

/// Of a list of ports after commas.
inline int port_of(std::string const& name, int index)
{
    char const* const value = std::getenv(name.c_str());
    if (value == nullptr)
        throw std::runtime_error{name +
                                 " is not set: run scripts/test.sh kafka, or eval \"$(scripts/kafka.sh up DIR)\""};
    std::string text{value};
    for (; index > 0; --index) text = text.substr(text.find(',') + 1);
    return std::stoi(text);
}

class kafka_fixture
{
public:
    ports::transport& transport()
    {
        if (!transport_) transport_ = std::make_unique<kafka::kafka_transport>(options(), log_);
        return *transport_;
    }

    /// As the transport has them; for a test that needs others.
    kafka::options options() const
    {
        kafka::options made;
        made.brokers = "127.0.0.1:" + std::to_string(proxy_.port());
        made.shape.partitions = 1;
        made.reconnect = {std::chrono::milliseconds{10}, std::chrono::milliseconds{200}};
        made.drain = std::chrono::seconds{2};
        return made;
    }

    /// A record that nobody but the test has written.
    void write(std::string const& topic, std::string const& key, core::header_list const& headers,
               std::string const& value, std::chrono::milliseconds age = {})
    {
        kafka::listener nobody;
        kafka::client producer{RD_KAFKA_PRODUCER, {{"bootstrap.servers", options().brokers}}, nobody};
        produce(producer, topic, key, headers, value, age);
        flush(producer);
    }

    /// As write(): then the next record has not the next number, which the transaction's end has.
    void write_in_transaction(std::string const& topic, core::header_list const& headers, std::string const& value)
    {
        auto const producer = begin_transaction(topic);
        produce(*producer, topic, "key", headers, value, {});
        REQUIRE(kafka::error_ptr{rd_kafka_commit_transaction(producer->raw(), 10'000)} == nullptr);
    }

    /// So many records that nobody is given.
    void write_in_vain(std::string const& topic, std::int64_t count)
    {
        auto const producer = begin_transaction(topic);
        for (std::int64_t i = 0; i < count; ++i) produce(*producer, topic, "key", {}, "aborted", {});
        flush(*producer);
        REQUIRE(kafka::error_ptr{rd_kafka_abort_transaction(producer->raw(), 10'000)} == nullptr);
    }

    static void produce(kafka::client& producer, std::string const& topic, std::string const& key,
                        core::header_list const& headers, std::string const& value, std::chrono::milliseconds age)
    {
        auto const at = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()) - age;
        kafka::headers_ptr made{rd_kafka_headers_new(headers.size())};
        for (auto const& [name, text] : headers)
            rd_kafka_header_add(made.get(), name.c_str(), -1, text.data(), static_cast<ssize_t>(text.size()));
        auto const error =
            rd_kafka_producev(producer.raw(), RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(key.data(), key.size()),
                              RD_KAFKA_V_TIMESTAMP(at.time_since_epoch().count()), RD_KAFKA_V_HEADERS(made.release()),
                              RD_KAFKA_V_VALUE(const_cast<char*>(value.data()), value.size()), RD_KAFKA_V_END);
        REQUIRE(error == RD_KAFKA_RESP_ERR_NO_ERROR);
    }

    static void flush(kafka::client& producer)
    {
        REQUIRE(rd_kafka_flush(producer.raw(), 10'000) == RD_KAFKA_RESP_ERR_NO_ERROR);
    }

    /// Where the group begins, which has the topic's name unless one is given.
    void set_back(std::string const& topic, std::int64_t offset, std::string const& group = {})
    {
        kafka::listener nobody;
        kafka::client operator_{RD_KAFKA_CONSUMER,
                                {{"bootstrap.servers", options().brokers}, {"group.id", group.empty() ? topic : group}},
                                nobody};
        auto const list = kafka::make_list();
        rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), 0)->offset = offset;
        REQUIRE(
            wait_until([&] { return rd_kafka_commit(operator_.raw(), list.get(), 0) == RD_KAFKA_RESP_ERR_NO_ERROR; }));
    }

    void delete_topic(std::string const& name)
    {
        kafka::listener nobody;
        kafka::client operator_{RD_KAFKA_PRODUCER, {{"bootstrap.servers", options().brokers}}, nobody};
        auto* asked = rd_kafka_DeleteTopic_new(name.c_str());
        kafka::queue_ptr const answers{rd_kafka_queue_new(operator_.raw())};
        rd_kafka_DeleteTopics(operator_.raw(), &asked, 1, nullptr, answers.get());
        rd_kafka_DeleteTopic_destroy(asked);
        REQUIRE(is_done(answers.get()));
    }

    /// As a limit of retention does, whether they were read or not: those of partition 0 before `offset`.
    void delete_before(std::string const& topic, std::int64_t offset)
    {
        kafka::listener nobody;
        kafka::client operator_{RD_KAFKA_PRODUCER, {{"bootstrap.servers", options().brokers}}, nobody};
        auto const list = kafka::make_list();
        rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), 0)->offset = offset;
        auto* asked = rd_kafka_DeleteRecords_new(list.get());
        kafka::queue_ptr const answers{rd_kafka_queue_new(operator_.raw())};
        rd_kafka_DeleteRecords(operator_.raw(), &asked, 1, nullptr, answers.get());
        rd_kafka_DeleteRecords_destroy(asked);
        REQUIRE(is_done(answers.get()));
    }

    /// What Kafka has of them.
    std::set<std::string> topics()
    {
        kafka::listener nobody;
        kafka::client any{RD_KAFKA_PRODUCER, {{"bootstrap.servers", options().brokers}}, nobody};
        auto const all = any.topics(patience);
        return {all.begin(), all.end()};
    }

    /// Every partition has a leader then.
    void make_topic(std::string const& name, int partitions = 1)
    {
        kafka::listener nobody;
        kafka::client any{RD_KAFKA_PRODUCER, {{"bootstrap.servers", options().brokers}}, nobody};
        kafka::make_topics(any, {name}, {.partitions = partitions});
        for (int i = 0; i < partitions; ++i)
            REQUIRE(wait_until([&] {
                try {
                    return any.extent_of({name, i}, patience).high >= 0;
                }
                catch (kafka::kafka_error const&) {
                    return false;
                }
            }));
    }

    std::string service() { return "test-" + std::to_string(std::random_device{}()) + std::to_string(++services_); }

    void go_down() { proxy_.cut(); }
    void come_back() { proxy_.restore(); }

    tcp_proxy& proxy() { return proxy_; }
    recording_logger& log() { return log_; }

private:
    std::unique_ptr<kafka::client> begin_transaction(std::string const& topic)
    {
        auto producer = std::make_unique<kafka::client>(
            RD_KAFKA_PRODUCER,
            kafka::property_list{{"bootstrap.servers", options().brokers}, {"transactional.id", topic}}, nobody_);
        REQUIRE(wait_until(
            [&] { return kafka::error_ptr{rd_kafka_init_transactions(producer->raw(), 10'000)} == nullptr; }));
        REQUIRE(kafka::error_ptr{rd_kafka_begin_transaction(producer->raw())} == nullptr);
        return producer;
    }

    static bool is_done(rd_kafka_queue_t* answers)
    {
        kafka::event_ptr const answer{rd_kafka_queue_poll(answers, 60'000)};
        return answer != nullptr && rd_kafka_event_error(answer.get()) == RD_KAFKA_RESP_ERR_NO_ERROR;
    }

    // KAFKA_TEST_PORTS: where the node listens for what comes through the proxy, and where it says that it does.
    tcp_proxy proxy_{"127.0.0.1", port_of("KAFKA_TEST_PORTS", 0), port_of("KAFKA_TEST_PORTS", 1)};
    recording_logger log_;
    kafka::listener nobody_;
    int services_{};
    std::unique_ptr<kafka::kafka_transport> transport_;
};

}  // namespace skald::test
