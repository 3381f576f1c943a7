// Proves who wrote a message: HMAC-SHA-256 (RFC 2104) with a key that the services share, over everything in it that
// decides what is done. See docs/security.md, "Signatures", and docs/adr/0026-messages-may-be-signed.md.
#pragma once

#include "core/message.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::core {

inline constexpr std::string_view signature_header = "skald-signature";

/// A key of at least 32 bytes. Its id is computed from it, so that two services can't use different ids for one key.
class signing_key
{
public:
    /// From hexadecimal digits, at least 64; surrounding white space is ignored. Nothing if it is anything else.
    static std::optional<signing_key> parse(std::string_view text);

    std::string const& id() const { return id_; }  // eight hexadecimal digits, not secret

    /// In hexadecimal digits. Throws std::runtime_error if OpenSSL fails.
    std::string mac_of(std::string_view bytes) const;

private:
    explicit signing_key(std::string bytes);

    std::string bytes_;
    std::string id_;
};

/// The signed part of a message: every field and header that a service acts on, each with its length, so that no two
/// messages yield the same bytes.
std::string signed_text(message const& m);

/// Why a message can't be trusted.
struct distrust
{
    std::string_view reason;  // with which it is parked: "unsigned" or "forged"
    std::string why;          // one sentence
};

/// Threads: any.
class key_ring
{
public:
    /// The first signs, all verify. At least one.
    explicit key_ring(std::vector<signing_key> keys);

    /// Adds the signature, unless the message has one: a message that is put back as received is not signed again.
    void sign(message& m) const;

    std::optional<distrust> check(message const& received) const;

    /// The ids of the keys, beginning with the one that signs.
    std::vector<std::string> ids() const;

private:
    std::vector<signing_key> keys_;
};

}  // namespace skald::core
