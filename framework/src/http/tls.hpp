// TLS for the HTTP entry: which versions are spoken, and a certificate that may be renewed at any time.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/log.hpp"
#include "http/certificate.hpp"
#include "http/stream.hpp"

namespace skald::http {

/// TLS 1.2 and 1.3 with HTTP/1.1 above it. Which ciphers and curves are good, OpenSSL and its configuration say.
/// Threads: the one that builds it, then the I/O thread.
class tls
{
public:
    /// Throws configuration_error as load_certificate() does.
    tls(tls_files files, core::logger& log);

    /// With the files as they are now: where they were changed since, they are read again. If they can't be used then,
    /// which is logged, the certificate before stays; files that could not be read are tried again. Connections keep
    /// the one that they began with.
    /// Throws std::runtime_error where OpenSSL can't make a connection.
    std::unique_ptr<stream> stream_over(boost::asio::ip::tcp::socket socket);

private:
    using stamps = std::array<file_stamp, 2>;

    stamps read_stamps() const { return {stamp_of(files_.certificate), stamp_of(files_.key)}; }
    tls_context load() const;
    void renew();

    tls_files const files_;
    core::logger& log_;
    stamps seen_{read_stamps()};  // before they are read: what is written meanwhile is read again
    tls_context context_{load()};
    std::string not_read_;  // why the last try to read them again came to nothing, if it did
};

}  // namespace skald::http
