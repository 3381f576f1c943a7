#include "rabbitmq/encode.hpp"

#include "core/brokers_header.hpp"

#include <fmt/format.h>

namespace skald::rabbitmq {
namespace {

constexpr std::size_t shortstr_bytes_max = 255;
constexpr std::uint8_t persistent = 2;

// What else is in a header's frame (frame, class, flags, delivery mode, correlation), and room for what the broker adds
// when it redelivers or dead-letters the message.
constexpr std::size_t frame_overhead = 2048;

std::string too_long(char const* field, std::string const& value)
{
    if (value.size() <= shortstr_bytes_max) return {};
    return fmt::format("its {} has {} bytes, AMQP allows {}", field, value.size(), shortstr_bytes_max);
}

std::string refused_header(std::string const& name)
{
    if (name.empty()) return "a header has no name";
    if (name.size() > shortstr_bytes_max)
        return fmt::format("the name of a header has {} bytes, AMQP allows {}", name.size(), shortstr_bytes_max);
    if (core::is_brokers_own_header(name)) return fmt::format("the header `{}` belongs to the broker", name);
    return {};
}

std::size_t header_frame_bytes(core::message const& message)
{
    std::size_t total = frame_overhead + message.id.size() + message.type.size() + message.content_type.size();
    for (auto const& [name, value] : message.headers) total += 1 + name.size() + 1 + 4 + value.size();
    return total;
}

amqp_table_entry_t text_entry(std::string const& name, std::string const& value)
{
    amqp_table_entry_t entry{};
    entry.key = bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes(value);
    return entry;
}

}  // namespace

std::string refusal(core::message const& message, std::size_t frame_max)
{
    if (message.destination.empty()) return "it has no destination";
    if (auto why = too_long("destination", message.destination); !why.empty()) return why;
    if (auto why = too_long("id", message.id); !why.empty()) return why;
    if (auto why = too_long("type", message.type); !why.empty()) return why;
    if (auto why = too_long("content type", message.content_type); !why.empty()) return why;
    for (auto const& header : message.headers)
        if (auto why = refused_header(header.first); !why.empty()) return why;
    if (auto const needed = header_frame_bytes(message); needed > frame_max)
        return fmt::format("its headers need {} bytes, the broker's frames hold {}", needed, frame_max);
    if (message.body.size() > body_bytes_max)
        return fmt::format("its body has {} bytes, at most {} are sent", message.body.size(), body_bytes_max);
    return {};
}

encoded_properties::encoded_properties(core::message const& message, std::string const& correlation)
{
    entries_.reserve(message.headers.size());
    for (auto const& [name, value] : message.headers) entries_.push_back(text_entry(name, value));

    properties_._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_HEADERS_FLAG |
                         AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties_.delivery_mode = persistent;
    properties_.correlation_id = bytes(correlation);
    properties_.headers = {static_cast<int>(entries_.size()), entries_.data()};
    properties_.message_id = bytes(message.id);
    properties_.type = bytes(message.type);
    properties_.content_type = bytes(message.content_type);
}

}  // namespace skald::rabbitmq
