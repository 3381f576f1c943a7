// The text that Kafka keeps beside the offset of a group.
#pragma once

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace skald::kafka_detail {

/// ASCII, with a NUL at its end: librdkafka hands out copies that have none of their own, and what is built on it
/// (confluent_kafka in Python) reads them as strings of C, into whatever comes after.
inline void write_beside(rd_kafka_topic_partition_t& one, std::string const& text)
{
    if (auto* const old = std::exchange(one.metadata, nullptr); old != nullptr) rd_kafka_mem_free(nullptr, old);
    one.metadata_size = text.size() + 1;
    one.metadata = rd_kafka_mem_malloc(nullptr, one.metadata_size);
    std::ranges::copy_n(text.c_str(), static_cast<std::ptrdiff_t>(one.metadata_size), static_cast<char*>(one.metadata));
}

/// Without that end; empty: there is none. As long as `one` is there.
inline std::string_view text_beside(rd_kafka_topic_partition_t const& one)
{
    if (one.metadata == nullptr) return {};
    std::string_view text{static_cast<char const*>(one.metadata), one.metadata_size};
    return text.substr(0, text.find('\0'));
}

}  // namespace skald::kafka_detail
