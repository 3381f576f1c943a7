// Certificates for a test, made when it runs, in a folder that is deleted with it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace skald::test {

template <auto function>
struct openssl_deleter
{
    void operator()(auto* owned) const { function(owned); }
};
using test_key = std::unique_ptr<EVP_PKEY, openssl_deleter<EVP_PKEY_free>>;
using test_certificate = std::unique_ptr<X509, openssl_deleter<X509_free>>;

/// What was made, and the key to sign others with.
struct identity
{
    test_key key;
    test_certificate certificate;
};

inline test_key new_key()
{
    return test_key{EVP_EC_gen("P-256")};
}

inline void add_extension(X509& to, X509& issuer, int kind, char const* value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, &issuer, &to, nullptr, nullptr, 0);
    auto* const made = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
    if (made == nullptr || X509_add_ext(&to, made, -1) != 1) throw std::runtime_error{"no such extension"};
    X509_EXTENSION_free(made);
}

constexpr char const* this_machine = "IP:127.0.0.1,DNS:localhost";

/// With `name` as its common name; signed by `issuer`, or by itself. It ends `days` from now: below 0, it has expired.
inline identity issue(std::string const& name, identity const* issuer = nullptr, int days = 1,
                      char const* hosts = this_machine)
{
    identity made{new_key(), test_certificate{X509_new()}};
    auto& certificate = *made.certificate;
    X509_set_version(&certificate, X509_VERSION_3);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(&certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(&certificate), -3'600L * 24 * 30);
    X509_gmtime_adj(X509_getm_notAfter(&certificate), 3'600L * 24 * days);
    X509_set_pubkey(&certificate, made.key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(&certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<unsigned char const*>(name.c_str()), -1, -1, 0);
    auto& signs = issuer != nullptr ? *issuer : made;
    X509_set_issuer_name(&certificate, X509_get_subject_name(signs.certificate.get()));
    add_extension(certificate, *signs.certificate, NID_basic_constraints, "CA:TRUE");
    add_extension(certificate, *signs.certificate, NID_subject_alt_name, hosts);
    if (X509_sign(&certificate, signs.key.get(), EVP_sha256()) == 0) throw std::runtime_error{"not signed"};
    return made;
}

inline std::string text_of(BIO* memory)
{
    char* bytes = nullptr;
    auto const size = BIO_get_mem_data(memory, &bytes);
    std::string text{bytes, static_cast<std::size_t>(size)};
    BIO_free(memory);
    return text;
}

inline std::string pem(identity const& of)
{
    auto* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(memory, of.certificate.get());
    return text_of(memory);
}

inline std::string key_pem(identity const& of, char const* password = nullptr)
{
    auto* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_PKCS8PrivateKey(memory, of.key.get(), password != nullptr ? EVP_aes_256_cbc() : nullptr, nullptr, 0,
                                  nullptr, const_cast<char*>(password));
    return text_of(memory);
}

/// A folder with the files of a server and the root that its clients know.
class certificate_folder
{
public:
    certificate_folder()
    {
        auto pattern = (std::filesystem::temp_directory_path() / "skald-tls-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no folder for certificates"};
        folder_ = pattern;
        write("root.pem", pem(root_));
        renew("first");
    }
    ~certificate_folder() { std::filesystem::remove_all(folder_); }
    certificate_folder(certificate_folder const&) = delete;
    certificate_folder& operator=(certificate_folder const&) = delete;

    std::string path(std::string const& name) const { return (folder_ / name).string(); }
    std::string root() const { return path("root.pem"); }
    std::string chain() const { return path("chain.pem"); }
    std::string key() const { return path("key.pem"); }

    /// Replaces the files with new ones: a certificate named `name`, signed by one that the root has signed.
    void renew(std::string const& name, int days = 1, char const* hosts = this_machine)
    {
        auto const made = issue(name, &middle_, days, hosts);
        write("chain.pem", pem(made) + pem(middle_));
        write("key.pem", key_pem(made));
    }

    /// Replaces it atomically, as certbot does, and readable by its owner alone.
    std::string write(std::string const& name, std::string const& text, int mode = 0600) const
    {
        auto const made = path(name + ".new");
        std::ofstream{made} << text;
        std::filesystem::permissions(made, static_cast<std::filesystem::perms>(mode));
        std::filesystem::rename(made, path(name));
        return path(name);
    }

private:
    std::filesystem::path folder_;
    identity root_{issue("root")};
    identity middle_{issue("middle", &root_)};
};

}  // namespace skald::test
