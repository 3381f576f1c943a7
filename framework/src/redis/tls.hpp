// TLS over a socket that is connected and does not block. hiredis speaks it from version 1.0 on; this works with any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

namespace skald::redis_detail {

/// The server has to have a certificate for the name by which it was asked for, from an authority that OpenSSL trusts
/// here: the system's, or those of SSL_CERT_FILE. All functions throw link_error for a connection that is of no use.
/// The process must ignore SIGPIPE. Threads: one at a time.
class tls
{
public:
    tls(int socket, std::string const& host);

    /// False: call it again after the socket is ready for events().
    bool shake_hands();

    /// How many bytes were taken, or put into `to`; 0: as above.
    std::size_t write(std::string_view bytes);
    std::size_t read(char* to, std::size_t most);

    /// Whether there is more to read without the socket.
    bool has_more() const { return SSL_pending(session_.get()) > 0; }

    /// For poll(2).
    short events() const { return events_; }

private:
    std::size_t done(int result, std::size_t count);

    struct deleter
    {
        void operator()(SSL* one) const { SSL_free(one); }
    };
    std::unique_ptr<SSL, deleter> session_;
    std::string host_;
    short events_{};
};

}  // namespace skald::redis_detail
