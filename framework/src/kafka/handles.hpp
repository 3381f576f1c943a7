// librdkafka's objects with owners.
#pragma once

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

template <auto destroy>
struct destroyer
{
    void operator()(auto* one) const noexcept { destroy(one); }
};

using message_ptr = std::unique_ptr<rd_kafka_message_t, destroyer<rd_kafka_message_destroy>>;
using queue_ptr = std::unique_ptr<rd_kafka_queue_t, destroyer<rd_kafka_queue_destroy>>;
using event_ptr = std::unique_ptr<rd_kafka_event_t, destroyer<rd_kafka_event_destroy>>;
using error_ptr = std::unique_ptr<rd_kafka_error_t, destroyer<rd_kafka_error_destroy>>;
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

inline void check(rd_kafka_resp_err_t error, char const* doing)
{
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw kafka_error{std::string{doing} + ": " + rd_kafka_err2str(error)};
}

inline void check(rd_kafka_error_t* error, char const* doing)
{
    if (error_ptr const owned{error}) throw kafka_error{std::string{doing} + ": " + rd_kafka_error_string(owned.get())};
}

}  // namespace skald::kafka_detail
