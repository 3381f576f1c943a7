// A message as tables keep it: in skald.parked, in the outbox.
#pragma once

#include "core/message.hpp"
#include "core/text.hpp"
#include "postgres/header_json.hpp"

#include <pqxx/row>

namespace skald::postgres {

/// Of a row with the columns destination, message_id, type, content_type, headers and body, which is hexadecimal.
inline core::message message_of(pqxx::row const& row)
{
    core::message m;
    m.destination = row["destination"].c_str();
    m.id = row["message_id"].c_str();
    m.type = row["type"].c_str();
    m.content_type = row["content_type"].c_str();
    m.headers = read_headers(row["headers"].c_str());
    m.body = core::from_hex(row["body"].c_str());
    return m;
}

}  // namespace skald::postgres
