#include "core/uuid.hpp"

#include "core/text.hpp"

#include <skald/start.hpp>

#include <cctype>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <openssl/rand.h>

namespace skald::core {

std::string make_uuid_v7()
{
    std::string bytes(16, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), 16) != 1)
        throw std::runtime_error{"OpenSSL has no random numbers"};

    using namespace std::chrono;
    auto const ms =
        static_cast<std::uint64_t>(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
    for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<char>(ms >> (40 - 8 * i));
    bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x70);  // version 7
    bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);  // variant 10

    auto text = to_hex(bytes);
    for (auto const dash : {8, 13, 18, 23}) text.insert(static_cast<std::size_t>(dash), 1, '-');
    return text;
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
