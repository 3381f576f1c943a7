// Binary data as text: RFC 4648, section 4, with padding, in exactly one form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

std::string to_base64(std::string_view bytes);

/// Nothing if `text` is not what to_base64() writes: another alphabet, line breaks, missing padding, or non-zero unused
/// bits.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace skald::core
