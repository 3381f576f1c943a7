// A kept response as the bytes of a Redis entry: first by what its epoch is known, then SHA-256 over that and all else,
// the database, scope and key included. So an entry of another epoch is void, and one that is damaged, shortened or of
// another key is seen. Not against forgers: who may write to Redis may answer clients (docs/redis.md).
#pragma once

#include "ports/front.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace skald::redis_detail {

/// Larger ones are not kept: they would hold up those who ask next.
inline constexpr std::size_t entry_bytes_max = 8 * 1024 * 1024;

/// With what the entries of an epoch begin. Does not say what the epoch is made of.
std::string epoch_mark(std::string_view epoch);

/// The name of a request's entry in Redis, and, with another suffix, of its mark. Both are in one slot of a cluster.
std::string name_of(std::string_view database, core::saga_id const& id);

std::string write_entry(std::string_view database, ports::kept_response const& what);

/// For who asks in the epoch `epoch` for the response of `id`: null if the bytes are of another epoch, or malformed.
std::shared_ptr<ports::kept_response const> read_entry(std::string_view database, core::saga_id const& id,
                                                       std::string_view epoch, std::string_view bytes);

}  // namespace skald::redis_detail
