// A message as every transport carries it: nothing here depends on RabbitMQ.
//
// Header values are text on the wire too, so that a message means the same on every transport and in the outbox.
// See docs/protocol.md, "Messages".
#pragma once

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

}  // namespace skald::core
