// The properties of librdkafka on whose values Skald relies. They are set after what the user has, who can't set them.
#pragma once

#include "kafka/client.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace skald::kafka_detail {

using fixed_property = std::pair<std::string_view, std::string_view>;

inline constexpr std::array<fixed_property, 7> fixed_for_consumers{
    {{"enable.auto.commit", "false"},
     {"enable.auto.offset.store", "false"},
     {"auto.offset.reset", "error"},  // and none is passed over in silence
     {"allow.auto.create.topics", "false"},
     {"enable.partition.eof", "false"},
     {"partition.assignment.strategy", "cooperative-sticky"},
     {"receive.message.max.bytes", "100000000"}}};

// After message.timeout.ms librdkafka gives up one message, and it alone is put off. It looks once a second, and must
// have done it before a publish loop's deadline (5 s): at that the whole producer is given up, with what is for other
// topics.
inline constexpr std::array<fixed_property, 6> fixed_for_publishers{{{"enable.idempotence", "true"},
                                                                     {"acks", "all"},
                                                                     {"allow.auto.create.topics", "false"},
                                                                     {"topic.metadata.propagation.max.ms", "0"},
                                                                     {"message.timeout.ms", "3000"},
                                                                     {"message.max.bytes", "18874368"}}};

/// Set from settings of Skald's, or never; and second names.
inline constexpr std::array<std::string_view, 6> set_elsewhere{
    "bootstrap.servers",     "metadata.broker.list", "group.id",
    "request.required.acks", "delivery.timeout.ms",  "transactional.id"};

inline bool is_relied_on(std::string_view name)
{
    auto const has_name = [name](fixed_property const& one) { return one.first == name; };
    return std::ranges::any_of(fixed_for_consumers, has_name) || std::ranges::any_of(fixed_for_publishers, has_name) ||
           std::ranges::find(set_elsewhere, name) != set_elsewhere.end();
}

inline void append(property_list& all, std::span<fixed_property const> fixed)
{
    for (auto const& [name, value] : fixed) all.emplace_back(name, value);
}

}  // namespace skald::kafka_detail
