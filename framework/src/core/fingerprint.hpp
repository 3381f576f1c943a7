// The fingerprint of what a key stands for: SHA-256 over the bytes as received, never over re-serialized JSON
// (traps G16).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace skald::core {

/// 32 raw bytes.
using fingerprint = std::string;

fingerprint fingerprint_of(std::string_view bytes);

/// Of several parts, each preceded by its length, so that no two lists of parts yield the same bytes.
fingerprint fingerprint_of_parts(std::initializer_list<std::string_view> parts);

}  // namespace skald::core
