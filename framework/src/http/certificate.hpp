// A certificate and its key, from files to what OpenSSL makes connections from.
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
    std::string certificate;  // PEM: the certificate, then those that lead to the root its clients know
    std::string key;          // PEM: its key, not encrypted; may be the same file

    bool operator==(tls_files const&) const = default;
};

/// Tells a file from one that was written or put in its place since. All zero for one that is not there.
struct file_stamp
{
    std::array<std::int64_t, 5> device_number_size_and_change{};
    bool operator==(file_stamp const&) const = default;
};

file_stamp stamp_of(std::string const& file);

/// Whether everybody on this machine may read it.
bool is_readable_by_all(std::string const& file);

struct context_deleter
{
    void operator()(SSL_CTX* context) const;
};
using tls_context = std::unique_ptr<SSL_CTX, context_deleter>;

/// It is not the files that are wrong: they could not be read just now, for want of file descriptors, say.
struct certificate_not_read : configuration_error
{
    using configuration_error::configuration_error;
};

/// Throws certificate_not_read, and configuration_error for a file that holds no PEM, a key that is encrypted or
/// another certificate's. Each names the setting, the file and what to do. Never asks on a terminal.
tls_context load_certificate(tls_files const& files);

/// When it ends, "2026-01-31T12:00:00Z", and whether it has already.
std::string end_of_certificate(SSL_CTX& context);
bool has_expired(SSL_CTX& context);

}  // namespace skald::http
