// Headers as the jsonb object in which they are stored.
#pragma once

#include "core/message.hpp"

#include <string>
#include <string_view>

namespace skald::postgres {

/// An object of strings. What is not storable text is escaped.
std::string write_headers(core::header_list const& headers);

core::header_list read_headers(std::string_view object);

}  // namespace skald::postgres
