// UUIDv7 (RFC 9562): the key of a saga whose caller gave none. Ordered by time, so that new keys meet warm index pages.
#pragma once

#include <string>

namespace skald::core {

std::string make_uuid_v7();

}  // namespace skald::core
