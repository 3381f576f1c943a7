// Redis in front of the guard for requests: a duplicate is answered from there, without a database connection. The
// guard decides all the same. In a library of its own, skald::redis; what it is worth, and when it is not:
// docs/redis.md.
//
//     service.front(skald::redis());     // and SKALD_GUARD=cache_aside SKALD_REDIS_URL=redis://127.0.0.1
#pragma once

#include <skald/detail/front_maker.hpp>

namespace skald {

/// For service::front(). What it makes connects to SKALD_REDIS_URL while the service runs, on a thread of its own, and
/// is made only where SKALD_GUARD asks for it. Away or slow, it costs a request SKALD_REDIS_MS now and then, and is
/// done without; docs/redis.md says what is counted and logged.
/// Throws: when it is made, configuration_error for a URL that is missing or malformed.
detail::front_maker redis();

}  // namespace skald
