// A Kafka of two brokers, of which one is away and leads the only topic, as in the first seconds after it has gone: the
// other one answers, and still names it as the leader. librdkafka's own double.
#pragma once

#include "kafka/client.hpp"

#include <stdexcept>
#include <string>

#include <librdkafka/rdkafka_mock.h>

namespace skald::test {

class kafka_in_part
{
public:
    /// `service`: whose topic there is, and whose group has the broker that answers as its coordinator.
    explicit kafka_in_part(std::string const& service)
    {
        auto const name = "skald." + service;
        bool const is_made = cluster_ != nullptr && is_done(rd_kafka_mock_topic_create(cluster_, name.c_str(), 1, 2)) &&
                             is_done(rd_kafka_mock_partition_set_leader(cluster_, name.c_str(), 0, 2)) &&
                             is_done(rd_kafka_mock_coordinator_set(cluster_, "group", name.c_str(), 1)) &&
                             is_done(rd_kafka_mock_broker_set_down(cluster_, 2));
        if (!is_made) throw std::runtime_error{"librdkafka's double of a cluster can't be made"};
    }

    std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

    void come_back() { rd_kafka_mock_broker_set_up(cluster_, 2); }

private:
    static bool is_done(rd_kafka_resp_err_t error) { return error == RD_KAFKA_RESP_ERR_NO_ERROR; }

    kafka_detail::listener nobody_;
    kafka_detail::client has_double_{RD_KAFKA_PRODUCER, {{"test.mock.num.brokers", "2"}}, nobody_};
    rd_kafka_mock_cluster_t* cluster_{rd_kafka_handle_mock_cluster(has_double_.raw())};
};

}  // namespace skald::test
