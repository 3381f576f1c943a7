// Bytes as text where they are no text: RFC 4648, section 4, with padding, and one way only to write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

std::string to_base64(std::string_view bytes);

/// Nothing where `text` is not what to_base64() writes: another alphabet, line breaks, padding that lacks, or bits that
/// no byte needs.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace skald::core
