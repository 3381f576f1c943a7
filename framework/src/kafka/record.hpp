// A message as a record of Kafka, and back: docs/kafka.md, "On the wire".
#pragma once

#include "core/message.hpp"
#include "kafka/handles.hpp"

#include <string>
#include <string_view>

namespace skald::kafka_detail {

/// Where messages for that destination go: to a service's own topic also what is for a handler of it.
std::string topic_of(std::string_view destination);

/// Why no topic can have that name; empty: one can.
std::string why_no_topic(std::string_view name);

/// Of the records that have the same, the order stays: scope and key of the saga. Empty: it belongs to none.
std::string record_key(core::message const& m);

/// Everything but the body, which is the record's value.
headers_ptr write_headers(core::message const& m);

struct read_record
{
    core::message message;
    std::string problem{};  // not empty: Skald has not written it
};

/// Of Skald's topics.
read_record read_own(rd_kafka_message_t const& record);

/// Of a topic of others: no destination; of its headers `content-type` is the content type, and those of a CloudEvent
/// get the prefix that they have over AMQP. The record's key is the header `kafka-key`.
core::message read_foreign(rd_kafka_message_t const& record);

}  // namespace skald::kafka_detail
