// What Kafka's ACLs do not let this user do, and what an operator is to give it (docs/kafka.md, "Rights").
#pragma once

#include <string>

#include <librdkafka/rdkafka.h>

namespace skald::kafka_detail {

/// This user may not, and is told the same when it asks again, until somebody gives it the right.
constexpr bool is_denial(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
           error == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

/// For behind a reason. `right`: as Kafka's tools name it; `on`: what.
inline std::string give(std::string const& right, std::string const& on)
{
    return ": give this user `" + right + "` on " + on + " (docs/kafka.md, \"Rights\")";
}

}  // namespace skald::kafka_detail
