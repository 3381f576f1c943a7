#include "core/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace skald::core {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes)
{
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(3, bytes.size()))) {
        auto const at = [&](std::size_t i) { return i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0u; };
        std::uint32_t const bits = at(0) << 16u | at(1) << 8u | at(2);
        out += alphabet[bits >> 18u];
        out += alphabet[bits >> 12u & 63u];
        out += bytes.size() > 1 ? alphabet[bits >> 6u & 63u] : '=';
        out += bytes.size() > 2 ? alphabet[bits & 63u] : '=';
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text)
{
    if (text.size() % 4 != 0) return std::nullopt;
    std::size_t const padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    auto const digits = text.substr(0, text.size() - padding);
    std::string out;
    out.reserve(text.size() / 4 * 3);
    std::uint32_t bits = 0;
    int held = 0;  // bits that do not make a byte yet
    for (char const c : digits) {
        auto const digit = alphabet.find(c);
        if (digit == std::string_view::npos) return std::nullopt;
        bits = bits << 6u | static_cast<std::uint32_t>(digit);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out += static_cast<char>(bits >> static_cast<unsigned>(held) & 0xffu);
        bits &= (1u << static_cast<unsigned>(held)) - 1u;
    }
    if (bits != 0) return std::nullopt;  // of the last digit; otherwise two texts would mean the same bytes
    return out;
}

}  // namespace skald::core
