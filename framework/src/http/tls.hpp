// TLS for the HTTP entry: the protocol versions, and a certificate that may be renewed at any time.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/log.hpp"
#include "http/certificate.hpp"
#include "http/stream.hpp"

namespace skald::http {

/// TLS 1.2 and 1.3 with HTTP/1.1 over it. Ciphers and curves are up to OpenSSL and its configuration.
/// Threads: the one that constructs it, then the I/O thread.
class tls
{
public:
    /// Throws configuration_error, as load_certificate() does.
    tls(tls_files files, core::logger& log);

    /// Uses the files as they are now: if they have changed, they are read again. If they can't be used, this is logged
    /// and the previous certificate stays; files that could not be read are tried again. Connections keep the
    /// certificate with which they began. Throws std::runtime_error if OpenSSL can't create a connection.
    std::unique_ptr<stream> stream_over(boost::asio::ip::tcp::socket socket);

private:
    using stamps = std::array<file_stamp, 2>;

    stamps read_stamps() const { return {stamp_of(files_.certificate), stamp_of(files_.key)}; }
    tls_context load() const;
    void renew();

    tls_files const files_;
    core::logger& log_;
    stamps seen_{read_stamps()};  // taken before the files are read: a change in between causes a reread
    tls_context context_{load()};
    std::string not_read_;  // why the last attempt to reread them failed, if it did
};

}  // namespace skald::http
