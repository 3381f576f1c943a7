// Headers as the jsonb object in which they are stored.
#pragma once

#include "core/message.hpp"

#include <string>
#include <string_view>

namespace skald::postgres {

/// An object of strings. What is not storable text is escaped.
std::string write_headers(core::header_list const& headers);

core::header_list read_headers(std::string_view object);

/// The same for a response, which is replayed byte for byte: an array of pairs, in order, with a repeated name as often
/// as it occurs. Each byte is stored as the character of its number, so that one that is not UTF-8 comes back too.
std::string write_fields(core::header_list const& fields);

/// What write_fields() has written, or an object of write_headers(), as responses were stored before.
core::header_list read_fields(std::string_view json);

}  // namespace skald::postgres
