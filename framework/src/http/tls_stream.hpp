// A connection over TLS, the server's side.
//
// OpenSSL works on the non-blocking socket itself, and is called again when the socket is ready. This way an idle
// connection holds no buffers, where Asio's own TLS stream holds four (docs/adr/0034-tls-without-asios-stream.md).
#pragma once

#include <memory>

#include <openssl/types.h>

#include "http/stream.hpp"

namespace skald::http {

/// Throws std::runtime_error if OpenSSL can't create one. `context` may be destroyed before the stream. The process
/// must ignore SIGPIPE: OpenSSL uses write(2).
std::unique_ptr<stream> tls_stream(boost::asio::ip::tcp::socket socket, SSL_CTX& context);

}  // namespace skald::http
