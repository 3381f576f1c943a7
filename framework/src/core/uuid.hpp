// UUIDv7 (RFC 9562): the key of a saga whose caller gave none. Ordered by time, so that new keys hit warm index pages.
#pragma once

#include <string>
#include <string_view>

namespace skald::core {

std::string make_uuid_v7();

/// Of any version, in the form with dashes.
bool is_uuid(std::string_view text);

}  // namespace skald::core
