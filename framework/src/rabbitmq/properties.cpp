#include "rabbitmq/properties.hpp"

#include "core/envelope.hpp"
#include "core/foreign_message.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace skald::rabbitmq {
namespace {

std::optional<std::string> to_text(amqp_field_value_t const& field)
{
    auto const& value = field.value;
    switch (field.kind) {
    case AMQP_FIELD_KIND_UTF8: return std::string{view(value.bytes)};
    case AMQP_FIELD_KIND_BOOLEAN: return value.boolean ? "true" : "false";
    case AMQP_FIELD_KIND_I8: return std::to_string(value.i8);
    case AMQP_FIELD_KIND_U8: return std::to_string(value.u8);
    case AMQP_FIELD_KIND_I16: return std::to_string(value.i16);
    case AMQP_FIELD_KIND_U16: return std::to_string(value.u16);
    case AMQP_FIELD_KIND_I32: return std::to_string(value.i32);
    case AMQP_FIELD_KIND_U32: return std::to_string(value.u32);
    case AMQP_FIELD_KIND_I64: return std::to_string(value.i64);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP: return std::to_string(value.u64);  // seconds since 1970, as it is sent
    default: return std::nullopt;
    }
}

// The field's kind differs between versions of the broker.
int to_count(amqp_field_value_t const& field)
{
    auto const text = to_text(field).value_or("0");
    int count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

char const* kind_name(std::uint8_t kind)
{
    switch (kind) {
    case AMQP_FIELD_KIND_TABLE: return "a table";
    case AMQP_FIELD_KIND_ARRAY: return "an array";
    case AMQP_FIELD_KIND_BYTES: return "a byte array";
    case AMQP_FIELD_KIND_F32:
    case AMQP_FIELD_KIND_F64: return "a floating point number";
    case AMQP_FIELD_KIND_DECIMAL: return "a decimal number";
    case AMQP_FIELD_KIND_VOID: return "void";
    default: return "of an unknown kind";
    }
}

void decode_headers(amqp_table_t const& table, decoded_properties& into)
{
    for (int i = 0; i < table.num_entries; ++i) {
        auto const& [key, value] = table.entries[i];
        std::string name{view(key)};
        if (name == "x-delivery-count") into.returns = to_count(value);
        if (name == "x-first-death-reason") into.left_by = to_text(value).value_or("");
        if (name == "x-first-death-exchange") into.sent_to = to_text(value).value_or("");
        if (core::is_brokers_own_header(name)) continue;
        if (auto text = to_text(value)) {
            into.message.headers.emplace_back(std::move(name), std::move(*text));
        }
        // Skald sends text: a Skald header of another kind was added on the way, by a shovel or a federation link.
        else if (core::is_skalds_header(name) && into.problem.empty()) {
            into.problem =
                fmt::format("the header `{}` is {}: only text, whole numbers, booleans and times can be read", name,
                            kind_name(value.kind));
        }
    }
}

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

bool is_property(std::string_view name)
{
    return name == core::header::reply_to || name == core::header::correlation_id || name == core::header::exchange;
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

decoded_properties decode_properties(amqp_basic_properties_t const& properties)
{
    auto const present = [&](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
    decoded_properties decoded;
    auto& message = decoded.message;
    message.content_type.clear();  // its default is for messages that we create
    if (present(AMQP_BASIC_MESSAGE_ID_FLAG)) message.id = view(properties.message_id);
    if (present(AMQP_BASIC_TYPE_FLAG)) message.type = view(properties.type);
    if (present(AMQP_BASIC_CONTENT_TYPE_FLAG)) message.content_type = view(properties.content_type);
    if (present(AMQP_BASIC_APP_ID_FLAG)) decoded.correlation = view(properties.app_id);
    if (present(AMQP_BASIC_HEADERS_FLAG)) decode_headers(properties.headers, decoded);
    // Not what a header of that name says: where a reply goes is the broker's to check.
    auto const set = [&message](std::string_view name, bool is_there, amqp_bytes_t value) {
        std::erase_if(message.headers, [&](auto const& one) { return one.first == name; });
        if (is_there) message.headers.emplace_back(name, view(value));
    };
    set(core::header::reply_to, present(AMQP_BASIC_REPLY_TO_FLAG), properties.reply_to);
    set(core::header::correlation_id, present(AMQP_BASIC_CORRELATION_ID_FLAG), properties.correlation_id);
    set(core::header::exchange, false, {});
    return decoded;
}

std::string refusal(core::message const& message, std::size_t frame_max)
{
    if (message.destination.empty()) return "it has no destination";
    if (auto why = too_long("destination", message.destination); !why.empty()) return why;
    if (auto why = too_long("id", message.id); !why.empty()) return why;
    if (auto why = too_long("type", message.type); !why.empty()) return why;
    if (auto why = too_long("content type", message.content_type); !why.empty()) return why;
    for (auto const& [name, value] : message.headers) {
        if (auto why = refused_header(name); !why.empty()) return why;
        if (is_property(name))
            if (auto why = too_long(name.c_str(), value); !why.empty()) return why;
    }
    if (auto const needed = header_frame_bytes(message); needed > frame_max)
        return fmt::format("its headers need {} bytes, the broker's frames hold {}", needed, frame_max);
    if (message.body.size() > body_bytes_max)
        return fmt::format("its body has {} bytes, at most {} are sent", message.body.size(), body_bytes_max);
    return {};
}

encoded_properties::encoded_properties(core::message const& message, std::string const& correlation)
{
    entries_.reserve(message.headers.size());
    for (auto const& [name, value] : message.headers)
        if (!is_property(name)) entries_.push_back(text_entry(name, value));

    properties_._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_HEADERS_FLAG |
                         AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties_.delivery_mode = persistent;
    properties_.app_id = bytes(correlation);
    for (auto const& [name, value] : message.headers) {
        if (name == core::header::reply_to) {
            properties_._flags |= AMQP_BASIC_REPLY_TO_FLAG;
            properties_.reply_to = bytes(value);
        }
        else if (name == core::header::correlation_id) {
            properties_._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
            properties_.correlation_id = bytes(value);
        }
    }
    properties_.headers = {static_cast<int>(entries_.size()), entries_.data()};
    properties_.message_id = bytes(message.id);
    properties_.type = bytes(message.type);
    properties_.content_type = bytes(message.content_type);
}

}  // namespace skald::rabbitmq
