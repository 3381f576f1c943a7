// Parses the value of an Idempotency-Key header.
//
// The IETF draft (httpapi-idempotency-key-header-07) makes it a structured-field string (RFC 8941), "8e03978e-40d5"
// with quotes; most clients send it bare. Both forms denote the same key.
#pragma once

#include <skald/http.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace skald::entry_detail {

/// Leaves room for the step's name in a message id, which AMQP limits to 255 bytes.
inline constexpr std::size_t idempotency_key_bytes_max = 180;

/// Either a key, or the reason why there is none, as a sentence for the 400 response.
struct idempotency_key
{
    std::string value{};  // unquoted: 1..180 bytes of printable ASCII
    std::string_view refusal{};
    bool is_missing{false};  // the request has no such header

    explicit operator bool() const { return refusal.empty(); }
};

/// Parameters after the key (`"k";v=1`) are validated and ignored. A comma between keys is refused: proxies merge two
/// headers this way, and picking one of the keys would be a guess.
idempotency_key parse_idempotency_key(std::string_view header_value);

/// The key of a request. Two such headers are refused, like two keys in one.
idempotency_key idempotency_key_of(http::request const& r);

}  // namespace skald::entry_detail
