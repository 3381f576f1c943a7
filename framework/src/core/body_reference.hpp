// What a message carries in the place of a body that is kept elsewhere. See docs/bodies.md.
#pragma once

#include "core/fingerprint.hpp"
#include "core/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

/// The largest body that is kept.
inline constexpr std::uint64_t kept_body_bytes_max = 64 * 1024 * 1024;

namespace header {
inline constexpr std::string_view body = "skald-body";
}

struct body_reference
{
    core::fingerprint fingerprint;  // of the body: its SHA-256, under which it is kept
    std::uint64_t size{};           // in bytes
    std::string store{};            // where it was put, for people: each service reads it where its own settings say

    /// `sha256:HEX`: what identifies it.
    std::string name() const;

    /// `sha256:HEX;size=N;store=NAME`, for a header or a column.
    std::string text() const;

    bool operator==(body_reference const&) const = default;
};

body_reference reference_to(std::string_view body, std::string_view store);

/// Of text(). Nothing if it has another form, or names a larger body than may be kept.
std::optional<body_reference> parse_reference(std::string_view text);

/// What is in the place of data in a row that keeps it apart: {"skald-body": text()}.
std::string stand_in_for(body_reference const& what);

/// Whether the message carries a reference, well-formed or not.
bool is_kept_elsewhere(message const& m);

/// The reference that it carries. Nothing if it has none, one that is malformed, or a body too.
std::optional<body_reference> reference_in(message const& m);

/// Replaces its body by the reference.
void refer(message& m, body_reference const& to);

/// The body of `from`, or the reference that it carries instead, goes to `to` too.
void carry_body(message& to, message const& from);

}  // namespace skald::core
