// A connection through TLS, the server's side.
//
// OpenSSL works on the socket itself, which never blocks, and is asked again when the socket is ready for it. An idle
// connection so holds no buffers; Asio's own TLS stream holds four of them, 70 KB, for each.
#pragma once

#include <memory>

#include <openssl/types.h>

#include "http/stream.hpp"

namespace skald::http {

/// Throws std::runtime_error where OpenSSL can't make one. `context` may go before the stream.
/// The process must ignore SIGPIPE: OpenSSL writes by write(2).
std::unique_ptr<stream> tls_stream(boost::asio::ip::tcp::socket socket, SSL_CTX& context);

}  // namespace skald::http
