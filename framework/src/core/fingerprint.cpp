#include "core/fingerprint.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>

#include <openssl/evp.h>

namespace skald::core {
namespace {

class sha256
{
public:
    sha256()
    {
        if (!context_ || EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) != 1) fail();
    }

    void add(std::string_view bytes)
    {
        if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) fail();
    }

    fingerprint finish()
    {
        fingerprint out(32, '\0');
        if (EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(out.data()), nullptr) != 1) fail();
        return out;
    }

private:
    // Fetched once: otherwise OpenSSL 3 looks the algorithm up by name each time.
    static EVP_MD const* algorithm()
    {
        static std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> const fetched{EVP_MD_fetch(nullptr, "SHA256", nullptr),
                                                                             &EVP_MD_free};
        return fetched.get();
    }

    [[noreturn]] static void fail() { throw std::runtime_error{"OpenSSL can't compute SHA-256"}; }

    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

}  // namespace

fingerprint fingerprint_of(std::string_view bytes)
{
    sha256 digest;
    digest.add(bytes);
    return digest.finish();
}

fingerprint fingerprint_of_parts(std::initializer_list<std::string_view> parts)
{
    sha256 digest;
    for (auto const part : parts) {
        digest.add(std::to_string(part.size()) + ':');
        digest.add(part);
    }
    return digest.finish();
}

}  // namespace skald::core
