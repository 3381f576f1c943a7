// What a message is about: scope, key and step, and the derived key `key:step` that carries key and step in a header.
// See docs/protocol.md, "Identity".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

inline constexpr std::size_t scope_bytes_max = 64;
inline constexpr std::size_t key_bytes_max = 180;
inline constexpr std::string_view compensate_suffix = ".compensate";

bool is_scope(std::string_view text);  // at most 64 bytes of UTF-8 without NUL
bool is_key(std::string_view text);    // 1..180 bytes of printable ASCII
bool is_name(std::string_view text);   // [a-z][a-z0-9-]{0,47}: definitions, steps, services

/// One saga.
struct saga_id
{
    std::string scope;
    std::string key;
    bool operator==(saga_id const&) const = default;
};

enum class direction { forward, back };

/// `key:step` or `key:step.compensate`. Split at the last colon, since a key may contain colons and a step may not;
/// used to carry an identity, never to compare one: the parts are stored in separate columns (traps G14).
struct derived_key
{
    std::string key;
    std::string step;
    core::direction direction{};

    bool operator==(derived_key const&) const = default;

    std::string text() const;          // "key:step.compensate"
    std::string guarded_step() const;  // "step.compensate": the third column of the guard's record
};

/// Nothing if it is malformed.
std::optional<derived_key> parse_derived_key(std::string_view text);

}  // namespace skald::core
