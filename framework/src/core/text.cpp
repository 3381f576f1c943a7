#include "core/text.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace skald::core {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

bool continues(unsigned char byte)
{
    return (byte & 0xc0u) == 0x80u;
}

// The length of the UTF-8 sequence at the start of `text`, 0 if there is none (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF), or if it is NUL.
std::size_t sequence_length(std::string_view text)
{
    auto const at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    unsigned const first = at(0), second = at(1);
    if (first == 0) return 0;
    if (first < 0x80) return 1;
    if (!continues(static_cast<unsigned char>(second))) return 0;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (!continues(static_cast<unsigned char>(at(2)))) return 0;
    if (first == 0xe0) return second >= 0xa0 ? 3 : 0;
    if (first == 0xed) return second <= 0x9f ? 3 : 0;
    if (first >= 0xe1 && first <= 0xef) return 3;
    if (!continues(static_cast<unsigned char>(at(3)))) return 0;
    if (first == 0xf0) return second >= 0x90 ? 4 : 0;
    if (first == 0xf4) return second <= 0x8f ? 4 : 0;
    return first >= 0xf1 && first <= 0xf3 ? 4 : 0;
}

// For one character; `text` may be a byte that is not a character.
bool is_control(std::string_view text)
{
    auto const first = static_cast<unsigned char>(text.front());
    if (text.size() == 1) return first < 0x20 || first == 0x7f || first >= 0x80;
    return first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;  // C1
}

std::string escaped(char byte)
{
    if (byte == '\n') return "\\n";
    if (byte == '\r') return "\\r";
    if (byte == '\t') return "\\t";
    return "\\x" + to_hex({&byte, 1});
}

std::uint8_t nibble(char c)
{
    auto const at = digits.find(c);
    if (at == std::string_view::npos) throw std::invalid_argument{"not a hexadecimal digit"};
    return static_cast<std::uint8_t>(at);
}

}  // namespace

bool is_storable_text(std::string_view text)
{
    while (!text.empty()) {
        auto const length = sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string storable_text(std::string_view text, std::size_t bytes_max)
{
    std::string out;
    while (!text.empty()) {
        auto const length = sequence_length(text);
        if (out.size() + (length == 0 ? 4 : length) > bytes_max) break;
        if (length == 0) (out += "\\x") += to_hex(text.substr(0, 1));
        else out += text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

std::string visible_text(std::string_view text, line_feeds how)
{
    std::string out;
    while (!text.empty()) {
        auto const one = text.substr(0, std::max<std::size_t>(sequence_length(text), 1));
        text.remove_prefix(one.size());
        if (!is_control(one) || (one == "\n" && how == line_feeds::kept)) out += one;
        else out += escaped(one.back());  // for C1 the second byte is the character's number
    }
    return out;
}

std::string in_one_line(std::string_view text)
{
    std::string out;
    while (!text.empty()) {
        auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.find_first_not_of(" \t\r^") == std::string_view::npos) continue;
        line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
        (out += out.empty() ? "" : "; ") += line;
    }
    return out;
}

std::string to_hex(std::string_view bytes)
{
    std::string out(bytes.size() * 2, '\0');
    auto to = out.begin();
    for (char const c : bytes) {
        auto const byte = static_cast<unsigned char>(c);
        *to++ = digits[byte >> 4u];
        *to++ = digits[byte & 15u];
    }
    return out;
}

std::string from_hex(std::string_view hex)
{
    if (hex.size() % 2 != 0) throw std::invalid_argument{"an odd number of hexadecimal digits"};
    std::string out;
    out.reserve(hex.size() / 2);
    for (std::size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(nibble(hex[i]) << 4u | nibble(hex[i + 1]));
    return out;
}

std::string to_base64(std::string_view bytes)
{
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a NUL
    auto const* const from = reinterpret_cast<unsigned char const*>(bytes.data());
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), from, static_cast<int>(bytes.size()));
    text.pop_back();
    return text;
}

std::optional<std::string> from_base64(std::string_view text)
{
    if (text.size() % 4 != 0) return std::nullopt;
    std::string bytes(text.size() / 4 * 3, '\0');
    auto const* const from = reinterpret_cast<unsigned char const*>(text.data());
    if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), from, static_cast<int>(text.size())) < 0)
        return std::nullopt;
    bytes.resize(bytes.size() - (text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0));
    if (to_base64(bytes) != text) return std::nullopt;  // OpenSSL also reads what no encoder writes
    return bytes;
}

}  // namespace skald::core
