// A message as text, with everything that a consumer can see of it: two messages are equal if their texts are.
#pragma once

#include "support/amqp_hands.hpp"

#include <cctype>
#include <map>
#include <string>

namespace skald::test {

inline std::string shown(amqp_bytes_t bytes)
{
    std::string text;
    for (char const c : view(bytes)) {
        if (std::isprint(static_cast<unsigned char>(c)) != 0) text += c;
        else text += '\\' + std::to_string(static_cast<unsigned char>(c));
    }
    return text;
}

inline std::string shown(amqp_table_t const& table);

inline std::string shown(amqp_field_value_t const& field)
{
    std::string text{static_cast<char>(field.kind)};
    switch (field.kind) {
    case AMQP_FIELD_KIND_TABLE: return text + shown(field.value.table);
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES: return text + shown(field.value.bytes);
    case AMQP_FIELD_KIND_BOOLEAN: return text + std::to_string(field.value.boolean);
    case AMQP_FIELD_KIND_I32: return text + std::to_string(field.value.i32);
    case AMQP_FIELD_KIND_I64: return text + std::to_string(field.value.i64);
    case AMQP_FIELD_KIND_F64: return text + std::to_string(field.value.f64);
    case AMQP_FIELD_KIND_ARRAY:
        for (int i = 0; i < field.value.array.num_entries; ++i) text += ' ' + shown(field.value.array.entries[i]);
        return text;
    default: return text + '?';
    }
}

inline std::string shown(amqp_table_t const& table)
{
    std::map<std::string, std::string> sorted;
    for (int i = 0; i < table.num_entries; ++i) sorted[shown(table.entries[i].key)] = shown(table.entries[i].value);
    std::string text = "{";
    for (auto const& [name, value] : sorted) text += name + '=' + value + "; ";
    return text + '}';
}

/// Everything that a consumer can see of a message.
inline std::string shown(amqp_message_t const& m)
{
    auto const& p = m.properties;
    std::string text = std::to_string(p._flags);
    auto const add = [&](amqp_flags_t flag, std::string const& value) {
        text += '|' + ((p._flags & flag) != 0 ? value : "");
    };
    add(AMQP_BASIC_CONTENT_TYPE_FLAG, shown(p.content_type));
    add(AMQP_BASIC_CONTENT_ENCODING_FLAG, shown(p.content_encoding));
    add(AMQP_BASIC_HEADERS_FLAG, shown(p.headers));
    add(AMQP_BASIC_DELIVERY_MODE_FLAG, std::to_string(p.delivery_mode));
    add(AMQP_BASIC_PRIORITY_FLAG, std::to_string(p.priority));
    add(AMQP_BASIC_CORRELATION_ID_FLAG, shown(p.correlation_id));
    add(AMQP_BASIC_REPLY_TO_FLAG, shown(p.reply_to));
    add(AMQP_BASIC_MESSAGE_ID_FLAG, shown(p.message_id));
    add(AMQP_BASIC_TIMESTAMP_FLAG, std::to_string(p.timestamp));
    add(AMQP_BASIC_TYPE_FLAG, shown(p.type));
    add(AMQP_BASIC_APP_ID_FLAG, shown(p.app_id));
    return text + '|' + shown(m.body);
}

}  // namespace skald::test
