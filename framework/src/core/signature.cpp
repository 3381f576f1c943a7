#include "core/signature.hpp"

#include "core/assert.hpp"
#include "core/body_reference.hpp"
#include "core/envelope.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace skald::core {
namespace {

constexpr std::size_t key_bytes_min = 32;
constexpr std::string_view version_mark = "v1=";
constexpr std::string_view form_mark = "skald-signature-v1\n";

// Every header on which read_envelope() bases a decision. Not those of the broker, which changes them, nor the trace
// context, which decides nothing and which others may rewrite. Adding a header requires another version.
constexpr std::array signed_headers{header::idempotency_key, header::scope,        header::definition,
                                    header::version,         header::itinerary,    header::home,
                                    header::reason,          header::attempt,      header::snoozes,
                                    header::saga_deadline,   header::step_deadline};

void add(std::string& text, std::string_view field)
{
    text.append(std::to_string(field.size())).append(":").append(field).append(",");
}

std::size_t count_of(header_list const& headers, std::string_view name)
{
    return static_cast<std::size_t>(std::ranges::count_if(headers, [&](auto const& one) { return one.first == name; }));
}

// Given twice, each reader could choose a different one.
std::string_view signed_twice(header_list const& headers)
{
    for (auto const name : signed_headers)
        if (count_of(headers, name) > 1) return name;
    if (count_of(headers, header::body) > 1) return header::body;
    return count_of(headers, signature_header) > 1 ? signature_header : std::string_view{};
}

bool is_same(std::string_view one, std::string_view other)
{
    return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

distrust forged(std::string why)
{
    return {"forged", std::move(why)};
}

}  // namespace

std::optional<signing_key> signing_key::parse(std::string_view text)
{
    auto const is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    if (text.size() < 2 * key_bytes_min) return std::nullopt;
    std::string digits{text};
    std::ranges::transform(digits, digits.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    try {
        return signing_key{from_hex(digits)};
    }
    catch (std::invalid_argument const&) {
        return std::nullopt;
    }
}

signing_key::signing_key(std::string bytes) : bytes_{std::move(bytes)}, id_{mac_of("skald-key-id").substr(0, 8)} {}

std::string signing_key::mac_of(std::string_view bytes) const
{
    std::string mac(32, '\0');
    unsigned int size = 0;
    auto const* const done = HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
                                  reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size(),
                                  reinterpret_cast<unsigned char*>(mac.data()), &size);
    if (done == nullptr || size != mac.size()) throw std::runtime_error{"OpenSSL can't compute HMAC-SHA-256"};
    return to_hex(mac);
}

std::string signed_text(message const& m)
{
    std::string text{form_mark};
    text.reserve(1024 + m.body.size());
    for (auto const* field : {&m.destination, &m.id, &m.type, &m.content_type}) add(text, *field);
    for (auto const name : signed_headers) {
        if (auto const value = find_header(m.headers, name)) add(text, *value);
        else text += "-,";
    }
    add(text, m.body);
    // In the place of the body. Only there, so that all other messages are signed as before.
    if (auto const kept = find_header(m.headers, header::body)) add(text, *kept);
    return text;
}

key_ring::key_ring(std::vector<signing_key> keys) : keys_{std::move(keys)}
{
    SKALD_ASSERT(!keys_.empty());
}

void key_ring::sign(message& m) const
{
    if (find_header(m.headers, signature_header)) return;
    auto const& key = keys_.front();
    m.headers.emplace_back(signature_header, std::string{version_mark} + key.id() + ':' + key.mac_of(signed_text(m)));
}

std::optional<distrust> key_ring::check(message const& received) const
{
    auto const given = find_header(received.headers, signature_header);
    if (!given)
        return distrust{"unsigned", "it has no header `skald-signature`: nothing shows that a service has sent it"};
    if (auto const twice = signed_twice(received.headers); !twice.empty())
        return forged("header " + std::string{twice} + " is given twice");
    auto rest = *given;
    auto const colon = rest.find(':');
    if (!rest.starts_with(version_mark) || colon == std::string_view::npos)
        return forged("its signature is not of the form v1=KEY:SIGNATURE");
    auto const id = rest.substr(version_mark.size(), colon - version_mark.size());
    auto const key = std::ranges::find(keys_, id, &signing_key::id);
    if (key == keys_.end())
        return forged("it is signed with the key " + storable_text(id, 16) + ", which is none of this service's");
    if (!is_same(rest.substr(colon + 1), key->mac_of(signed_text(received))))
        return forged("its signature does not match its contents");
    return std::nullopt;
}

std::vector<std::string> key_ring::ids() const
{
    std::vector<std::string> all;
    for (auto const& key : keys_) all.push_back(key.id());
    return all;
}

}  // namespace skald::core
