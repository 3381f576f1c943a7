// A certificate and its key: from the files to the SSL context that makes connections.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <skald/errors.hpp>

#include <openssl/types.h>

namespace skald::http {

struct tls_files
{
    std::string certificate;  // PEM: the certificate, then its chain up to the root that clients know
    std::string key;          // PEM: its key, unencrypted; may be the same file

    bool operator==(tls_files const&) const = default;
};

/// Detects that a file was changed or replaced. All zero if the file does not exist.
struct file_stamp
{
    std::array<std::int64_t, 5> device_number_size_and_change{};
    bool operator==(file_stamp const&) const = default;
};

file_stamp stamp_of(std::string const& file);

/// Whether every user on this machine may read the file.
bool is_readable_by_all(std::string const& file);

struct context_deleter
{
    void operator()(SSL_CTX* context) const;
};
using tls_context = std::unique_ptr<SSL_CTX, context_deleter>;

/// The files themselves are not at fault: they could not be read right now, for example for want of file descriptors.
struct certificate_not_read : configuration_error
{
    using configuration_error::configuration_error;
};

/// Throws certificate_not_read, and configuration_error if a file holds no PEM or the key is encrypted or does not
/// match the certificate. Each error names the setting, the file and what to do. Never prompts on a terminal.
tls_context load_certificate(tls_files const& files);

/// When it expires ("2026-01-31T12:00:00Z"), and whether it already has.
std::string end_of_certificate(SSL_CTX& context);
bool has_expired(SSL_CTX& context);

}  // namespace skald::http
