// UUIDs (RFC 9562). Version 7: the key of a saga whose caller gave none, ordered by time, so that new keys hit warm
// index pages. Version 5: the key of a message whose sender gave none, made of what the message says.
#pragma once

#include <string>
#include <string_view>

namespace skald::core {

std::string make_uuid_v7();

/// Version 5 of RFC 9562, 5.5: SHA-1 of the namespace and the name. `space` is a UUID.
std::string make_uuid_v5(std::string_view space, std::string_view name);

/// Of any version, in the form with dashes.
bool is_uuid(std::string_view text);

}  // namespace skald::core
