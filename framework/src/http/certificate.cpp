#include "http/certificate.hpp"

#include "core/regular_file.hpp"

#include <ctime>
#include <string_view>

#include <sys/stat.h>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <skald/errors.hpp>

namespace skald::http {
namespace {

constexpr std::string_view certificate_setting = "SKALD_HTTP_TLS_CERTIFICATE";
constexpr std::string_view key_setting = "SKALD_HTTP_TLS_KEY";

template <auto function>
struct deleter
{
    void operator()(auto* owned) const { function(owned); }
};
using bio = std::unique_ptr<BIO, deleter<BIO_free>>;
using certificate = std::unique_ptr<X509, deleter<X509_free>>;
using private_key = std::unique_ptr<EVP_PKEY, deleter<EVP_PKEY_free>>;

[[noreturn]] void refuse(std::string_view setting, std::string const& file, std::string_view why)
{
    throw configuration_error{fmt::format("{} ({}) {}", setting, file, why)};
}

std::string why_openssl_failed()
{
    auto const* const reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason != nullptr ? reason : "unknown error";
}

std::string read_file(std::string_view setting, std::string const& name)
try {
    return core::read_regular_file(name);
}
catch (core::file_not_read const& met) {
    if (met.for_good) refuse(setting, name, met.what());
    throw certificate_not_read{fmt::format("{} ({}) {}", setting, name, met.what())};
}

bio reading(std::string const& text)
{
    return bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

// Replaces OpenSSL's default, which would prompt on the terminal.
int record_that_encrypted(char*, int, int, void* noted)
{
    *static_cast<bool*>(noted) = true;
    return -1;
}

void use_chain(SSL_CTX& context, std::string const& file)
{
    auto const text = read_file(certificate_setting, file);
    auto const from = reading(text);
    bool is_encrypted = false;
    certificate const own{PEM_read_bio_X509_AUX(from.get(), nullptr, record_that_encrypted, &is_encrypted)};
    if (!own) refuse(certificate_setting, file, "holds no certificate in PEM: " + why_openssl_failed());
    if (SSL_CTX_use_certificate(&context, own.get()) != 1)
        refuse(certificate_setting, file, "can't be used: " + why_openssl_failed());

    while (certificate const next{PEM_read_bio_X509(from.get(), nullptr, record_that_encrypted, &is_encrypted)})
        if (SSL_CTX_add1_chain_cert(&context, next.get()) != 1)
            refuse(certificate_setting, file, "holds a chain that can't be used: " + why_openssl_failed());
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)  // expected at the end of the file
        refuse(certificate_setting, file, "holds a damaged certificate behind the first: " + why_openssl_failed());
}

void use_key(SSL_CTX& context, tls_files const& files)
{
    auto const text = read_file(key_setting, files.key);
    bool is_encrypted = false;
    private_key const key{PEM_read_bio_PrivateKey(reading(text).get(), nullptr, record_that_encrypted, &is_encrypted)};
    if (is_encrypted)
        refuse(key_setting, files.key,
               "is encrypted: decrypt it with `openssl pkey` into a file that only the service reads");
    if (!key) refuse(key_setting, files.key, "holds no private key in PEM: " + why_openssl_failed());
    if (X509_check_private_key(SSL_CTX_get0_certificate(&context), key.get()) != 1)
        refuse(
            key_setting, files.key,
            fmt::format("is not the key of the first certificate in {} ({})", certificate_setting, files.certificate));
    if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1)
        refuse(key_setting, files.key, "can't be used: " + why_openssl_failed());
}

}  // namespace

void context_deleter::operator()(SSL_CTX* context) const
{
    SSL_CTX_free(context);
}

tls_context load_certificate(tls_files const& files)
{
    ERR_clear_error();
    tls_context context{SSL_CTX_new(TLS_server_method())};
    if (!context) throw certificate_not_read{"OpenSSL can't be used: " + why_openssl_failed()};
    use_chain(*context, files.certificate);
    use_key(*context, files);
    ERR_clear_error();
    return context;
}

file_stamp stamp_of(std::string const& file)
{
    struct stat found;
    if (::stat(file.c_str(), &found) != 0) return {};
    return {{static_cast<std::int64_t>(found.st_dev), static_cast<std::int64_t>(found.st_ino), found.st_size,
             found.st_ctim.tv_sec, found.st_ctim.tv_nsec}};
}

bool is_readable_by_all(std::string const& file)
{
    struct stat found;
    return ::stat(file.c_str(), &found) == 0 && (found.st_mode & S_IROTH) != 0;
}

std::string end_of_certificate(SSL_CTX& context)
{
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(&context)), &end) != 1) return "unknown";
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", end.tm_year + 1900, end.tm_mon + 1, end.tm_mday,
                       end.tm_hour, end.tm_min, end.tm_sec);
}

bool has_expired(SSL_CTX& context)
{
    return X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(&context))) < 0;
}

}  // namespace skald::http
