#include "core/base64.hpp"

#include <openssl/evp.h>

namespace skald::core {

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
