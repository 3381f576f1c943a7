#include "core/uuid.hpp"

#include "core/assert.hpp"
#include "core/text.hpp"

#include <skald/start.hpp>

#include <cctype>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <openssl/evp.h>
#include <openssl/rand.h>

namespace skald::core {
namespace {

// The first 16 of them, with a version and the variant.
std::string write_uuid(std::string bytes, unsigned version)
{
    bytes.resize(16);
    bytes[6] = static_cast<char>((static_cast<unsigned char>(bytes[6]) & 0x0fU) | (version << 4U));
    bytes[8] = static_cast<char>((static_cast<unsigned char>(bytes[8]) & 0x3fU) | 0x80U);
    auto text = to_hex(bytes);
    for (auto const dash : {8, 13, 18, 23}) text.insert(static_cast<std::size_t>(dash), 1, '-');
    return text;
}

}  // namespace

std::string make_uuid_v7()
{
    std::string bytes(16, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), 16) != 1)
        throw std::runtime_error{"OpenSSL has no random numbers"};

    using namespace std::chrono;
    auto const ms =
        static_cast<std::uint64_t>(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
    for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<char>(ms >> (40 - 8 * i));
    return write_uuid(std::move(bytes), 7);
}

std::string make_uuid_v5(std::string_view space, std::string_view name)
{
    SKALD_ASSERT(is_uuid(space));
    std::string digits{space};
    std::erase(digits, '-');
    auto const hashed = from_hex(digits).append(name);
    std::string digest(20, '\0');
    unsigned size = 0;
    auto* const out = reinterpret_cast<unsigned char*>(digest.data());
    if (EVP_Digest(hashed.data(), hashed.size(), out, &size, EVP_sha1(), nullptr) != 1 || size != digest.size())
        throw std::runtime_error{"OpenSSL can't compute SHA-1"};
    return write_uuid(std::move(digest), 5);
}

bool is_uuid(std::string_view text)
{
    if (text.size() != 36) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        bool const dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return false;
    }
    return true;
}

}  // namespace skald::core

namespace skald {

std::string make_key()
{
    return core::make_uuid_v7();
}

}  // namespace skald
