// librdkafka's objects with owners.
#pragma once

#include "kafka/rights.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <librdkafka/rdkafka.h>

namespace skald::kafka_detail {

/// Kafka can't be reached, or refuses. what() is one line for an operator.
class kafka_error : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/// This client can't be used any more: a new one must be made.
class client_lost : public kafka_error
{
public:
    using kafka_error::kafka_error;
};

/// Kafka is there, and did not answer this: the broker that would is away, or what it led moves to another.
class kafka_unsettled : public kafka_error
{
public:
    using kafka_error::kafka_error;
};

/// This user may not do what it does or asks. what() says which right to give.
class denied : public kafka_error
{
public:
    using kafka_error::kafka_error;
};

template <auto destroy>
struct destroyer
{
    void operator()(auto* one) const noexcept { destroy(one); }
};

using message_ptr = std::unique_ptr<rd_kafka_message_t, destroyer<rd_kafka_message_destroy>>;
using queue_ptr = std::unique_ptr<rd_kafka_queue_t, destroyer<rd_kafka_queue_destroy>>;
using event_ptr = std::unique_ptr<rd_kafka_event_t, destroyer<rd_kafka_event_destroy>>;
using error_ptr = std::unique_ptr<rd_kafka_error_t, destroyer<rd_kafka_error_destroy>>;
using topic_ptr = std::unique_ptr<rd_kafka_topic_t, destroyer<rd_kafka_topic_destroy>>;
using headers_ptr = std::unique_ptr<rd_kafka_headers_t, destroyer<rd_kafka_headers_destroy>>;
using new_topic_ptr = std::unique_ptr<rd_kafka_NewTopic_t, destroyer<rd_kafka_NewTopic_destroy>>;
using admin_options_ptr = std::unique_ptr<rd_kafka_AdminOptions_t, destroyer<rd_kafka_AdminOptions_destroy>>;
using metadata_ptr = std::unique_ptr<struct rd_kafka_metadata const, destroyer<rd_kafka_metadata_destroy>>;
using partition_list =
    std::unique_ptr<rd_kafka_topic_partition_list_t, destroyer<rd_kafka_topic_partition_list_destroy>>;

inline partition_list make_list(int size = 1)
{
    return partition_list{rd_kafka_topic_partition_list_new(size)};
}

/// A partition of a topic.
using place = std::pair<std::string, std::int32_t>;

/// What a question meets while a broker is away or has just come, and no more when the cluster has settled.
constexpr bool is_passing(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE: return true;
    default: return false;
    }
}

inline void check(rd_kafka_resp_err_t error, char const* doing)
{
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    auto const what = std::string{doing} + ": " + rd_kafka_err2str(error);
    if (is_passing(error)) throw kafka_unsettled{what};
    if (is_denial(error)) throw denied{what};
    throw kafka_error{what};
}

inline void check(rd_kafka_error_t* error, char const* doing)
{
    if (error_ptr const owned{error}) throw kafka_error{std::string{doing} + ": " + rd_kafka_error_string(owned.get())};
}

}  // namespace skald::kafka_detail
