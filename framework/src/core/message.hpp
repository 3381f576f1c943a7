// A message as every transport carries it: nothing here depends on RabbitMQ.
//
// Header values are text on the wire too, so that a message means the same on every transport and in the outbox.
// See docs/protocol.md, "Messages".
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::core {

using header_list = std::vector<std::pair<std::string, std::string>>;

struct message
{
    std::string destination;  // the service it is for: the routing key
    std::string id;           // message_id: the derived key, at most 255 bytes
    std::string type;         // the step's name, or the type of a published message
    std::string content_type{"application/json"};
    header_list headers;
    std::string body;
};

/// The first header of that name, or nothing. Names are compared byte by byte, as AMQP does.
inline std::optional<std::string_view> find_header(header_list const& headers, std::string_view name)
{
    for (auto const& [header, value] : headers)
        if (header == name) return value;
    return std::nullopt;
}

/// Of a message: what fits into a frame of AMQP's. A longer value is stored cut off.
inline constexpr std::size_t header_bytes_max = 126 * 1024;

/// Belongs to the broker, or makes it act: no transport sends it, and it is dropped from deliveries.
inline bool is_brokers_own_header(std::string_view name)
{
    // CC and BCC are further routing keys: if they are text, the broker closes the channel.
    // clang-format off
    static constexpr std::array<std::string_view, 12> names{
        "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count", "x-opt-rabbitmq-delivery-time",
        "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
        "x-last-death-exchange", "x-last-death-queue", "x-last-death-reason"};
    // clang-format on
    return std::ranges::find(names, name) != names.end();
}

}  // namespace skald::core
