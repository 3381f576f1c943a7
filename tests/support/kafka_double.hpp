// librdkafka's own double of a Kafka: a real node alone has a leader for all of its partitions, or for none.
#pragma once

#include "kafka/client.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <librdkafka/rdkafka_mock.h>

namespace skald::test {

class kafka_double
{
public:
    /// Of topics with one partition each.
    explicit kafka_double(std::vector<std::string> const& topics, int brokers = 1)
        : has_double_{RD_KAFKA_PRODUCER, {{"test.mock.num.brokers", std::to_string(brokers)}}, nobody_}
    {
        if (cluster_ == nullptr) throw std::runtime_error{"librdkafka has no double of a cluster"};
        for (auto const& topic : topics) must(rd_kafka_mock_topic_create(cluster_, topic.c_str(), 1, brokers));
    }

    std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

    /// Of the topic's partition; -1: it has none.
    void set_leader(char const* topic, int broker)
    {
        must(rd_kafka_mock_partition_set_leader(cluster_, topic, 0, broker));
    }

    void answer_after(std::chrono::milliseconds time)
    {
        must(rd_kafka_mock_broker_set_rtt(cluster_, 1, static_cast<int>(time.count())));
    }

    /// Every such request (its number in Kafka's protocol) is answered so, until allow().
    void deny(std::int16_t request, rd_kafka_resp_err_t error)
    {
        std::vector<rd_kafka_resp_err_t> const always(10'000, error);
        rd_kafka_mock_push_request_errors_array(cluster_, request, always.size(), always.data());
    }

    void allow(std::int16_t request) { rd_kafka_mock_clear_request_errors(cluster_, request); }

protected:
    static void must(rd_kafka_resp_err_t error)
    {
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error{rd_kafka_err2str(error)};
    }

    kafka_detail::listener nobody_;
    kafka_detail::client has_double_;
    rd_kafka_mock_cluster_t* cluster_{rd_kafka_handle_mock_cluster(has_double_.raw())};
};

/// Of two brokers, of which one is away and leads the only topic, as in the first seconds after it has gone: the other
/// one answers, and still names it as the leader.
struct kafka_in_part : kafka_double
{
    /// `service`: whose topic there is, and whose group has the broker that answers as its coordinator.
    explicit kafka_in_part(std::string const& service) : kafka_double{{"skald." + service}, 2}
    {
        auto const name = "skald." + service;
        set_leader(name.c_str(), 2);
        must(rd_kafka_mock_coordinator_set(cluster_, "group", name.c_str(), 1));
        must(rd_kafka_mock_broker_set_down(cluster_, 2));
    }
};

}  // namespace skald::test
