#include "core/span_context.hpp"

#include <algorithm>

namespace skald::core {
namespace {

constexpr std::size_t length_of_version_00 = 55;
constexpr std::uint8_t sampled_flag = 1;

int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// False if `text` is not made of as many lower-case digits as the bytes need.
template <std::size_t Size>
bool read_bytes(std::string_view text, std::array<std::uint8_t, Size>& into)
{
    if (text.size() != 2 * Size) return false;
    for (std::size_t n = 0; n < Size; ++n) {
        int const high = digit(text[2 * n]), low = digit(text[2 * n + 1]);
        if (high < 0 || low < 0) return false;
        into[n] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return true;
}

template <std::size_t Size>
bool is_zero(std::array<std::uint8_t, Size> const& bytes)
{
    return std::ranges::all_of(bytes, [](auto byte) { return byte == 0; });
}

template <std::size_t Size>
std::string text_of(std::array<std::uint8_t, Size> const& bytes)
{
    constexpr std::string_view digits{"0123456789abcdef"};
    std::string text;
    text.reserve(2 * Size);
    for (auto const byte : bytes) (text += digits[byte >> 4U]) += digits[byte & 15U];
    return text;
}

}  // namespace

std::string span_context::trace_id_text() const
{
    return text_of(trace_id);
}

std::string span_context::span_id_text() const
{
    return text_of(span_id);
}

std::string span_context::traceparent() const
{
    return "00-" + trace_id_text() + '-' + span_id_text() + (sampled ? "-01" : "-00");
}

std::optional<span_context> parse_traceparent(std::string_view text)
{
    if (text.size() < length_of_version_00 || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
    span_context read;
    std::array<std::uint8_t, 1> version{}, flags{};
    bool const is_well_formed = read_bytes(text.substr(0, 2), version) &&
                                read_bytes(text.substr(3, 32), read.trace_id) &&
                                read_bytes(text.substr(36, 16), read.span_id) && read_bytes(text.substr(53, 2), flags);
    if (!is_well_formed || version[0] == 0xff || is_zero(read.trace_id) || is_zero(read.span_id)) return std::nullopt;
    if (text.size() > length_of_version_00 && (version[0] == 0 || text[length_of_version_00] != '-'))
        return std::nullopt;
    read.sampled = (flags[0] & sampled_flag) != 0;
    return read;
}

bool is_tracestate(std::string_view text)
{
    return text.size() <= tracestate_bytes_max &&
           std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace skald::core
