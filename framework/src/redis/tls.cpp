#include "redis/tls.hpp"

#include "redis/link.hpp"

#include <array>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

namespace skald::redis_detail {
namespace {

struct context_deleter
{
    void operator()(SSL_CTX* one) const { SSL_CTX_free(one); }
};
using tls_context = std::unique_ptr<SSL_CTX, context_deleter>;

// Reading the authorities takes milliseconds: once for a process.
SSL_CTX& the_context()
{
    static tls_context const one = [] {
        tls_context made{SSL_CTX_new(TLS_client_method())};
        if (!made || SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION) != 1 ||
            SSL_CTX_set_default_verify_paths(made.get()) != 1)
            throw std::runtime_error{"OpenSSL can't be used for rediss://"};
        SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
        SSL_CTX_set_mode(made.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return made;
    }();
    return *one;
}

bool is_ip(std::string const& host)
{
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

tls::tls(int socket, std::string const& host) : session_{SSL_new(&the_context())}, host_{host}
{
    auto* const s = session_.get();
    bool const is_named =
        s != nullptr &&
        (is_ip(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), host.c_str()) == 1
                     : SSL_set1_host(s, host.c_str()) == 1 && SSL_set_tlsext_host_name(s, host.c_str()) == 1);
    if (!is_named || SSL_set_fd(s, socket) != 1) throw link_error{"OpenSSL can't begin a session with " + host};
    SSL_set_connect_state(s);
}

// Of a call that returned `result`: `count` if it has done something, or 0 and what it waits for.
std::size_t tls::done(int result, std::size_t count)
{
    if (result == 1) return count;
    switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ: events_ = POLLIN; return 0;
    case SSL_ERROR_WANT_WRITE: events_ = POLLOUT; return 0;
    case SSL_ERROR_ZERO_RETURN: throw link_error{"the server closed the connection"};
    default: break;
    }
    auto const refused = SSL_get_verify_result(session_.get());
    std::array<char, 256> text{};
    ERR_error_string_n(ERR_get_error(), text.data(), text.size());
    throw link_error{"TLS with " + host_ + ": " +
                     (refused != X509_V_OK ? std::string{X509_verify_cert_error_string(refused)} : text.data())};
}

bool tls::shake_hands()
{
    ERR_clear_error();
    return done(SSL_do_handshake(session_.get()), 1) == 1;
}

std::size_t tls::write(std::string_view bytes)
{
    ERR_clear_error();
    std::size_t count = 0;
    auto const result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &count);
    return done(result, count);
}

std::size_t tls::read(char* to, std::size_t most)
{
    ERR_clear_error();
    std::size_t count = 0;
    auto const result = SSL_read_ex(session_.get(), to, most, &count);
    return done(result, count);
}

}  // namespace skald::redis_detail
