// Making topics: never by accident, and so that nothing is lost in them.
#pragma once

#include "kafka/client.hpp"

#include <string>
#include <vector>

namespace skald::kafka_detail {

/// The largest message that Skald sends, with its headers and what Kafka adds.
inline constexpr int record_bytes_max = 17'825'792;

/// How a topic is made. One that exists is left as it is.
struct topic_shape
{
    int partitions{12};  // at most as many processes of a service consume at a time
    int replicas{0};     // 0: as the cluster has it (`default.replication.factor`)
    int in_sync_min{0};  // so many must have a record before it is confirmed; 0: as the cluster has it
};

/// Makes what is missing, and waits until it is there. Throws kafka_error.
void make_topics(client& with, std::vector<std::string> const& names, topic_shape const& shape);

/// Those that do not exist. Throws kafka_error if no broker answers.
std::vector<std::string> missing_topics(client& with, std::vector<std::string> const& names);

}  // namespace skald::kafka_detail
