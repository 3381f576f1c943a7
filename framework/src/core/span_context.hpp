// The identity of a span, as W3C Trace Context writes it in `traceparent`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

/// The longest `tracestate` that is passed on: what the specification asks every system to carry at least (3.3.1.5).
inline constexpr std::size_t tracestate_bytes_max = 512;

struct span_context
{
    std::array<std::uint8_t, 16> trace_id{};
    std::array<std::uint8_t, 8> span_id{};
    bool sampled{};

    std::string trace_id_text() const;  // 32 lower-case hexadecimal digits
    std::string span_id_text() const;   // 16 of them

    /// Version 00 of the header.
    std::string traceparent() const;

    bool operator==(span_context const&) const = default;
};

/// Nothing for what the specification calls invalid (2.2, 4.3): another form, an id of zeros, version ff. Of a version
/// above 00, what it has in common with 00 is read.
std::optional<span_context> parse_traceparent(std::string_view text);

/// At most tracestate_bytes_max of printable ASCII. What its members say is the vendors' affair.
bool is_tracestate(std::string_view text);

}  // namespace skald::core
