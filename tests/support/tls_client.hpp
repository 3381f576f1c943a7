// raw_client through TLS: it verifies the server's certificate, and sends what it is told to.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "support/certificates.hpp"
#include "support/raw_http.hpp"

namespace skald::test {

/// A client's TLS settings.
struct tls_wishes
{
    int version_min{TLS1_2_VERSION};
    int version_max{TLS1_3_VERSION};
    std::vector<unsigned char> protocols{};  // ALPN, each preceded by its length
    SSL_SESSION* resumed{nullptr};
    int receive_bytes{0};
};

/// Threads: one. OpenSSL's connection must not be written by one thread while another reads from it.
class tls_client : public raw_client
{
public:
    /// Connects and does the handshake. Throws std::runtime_error with OpenSSL's reason if that fails.
    tls_client(std::uint16_t port, std::string const& root_file, tls_wishes const& wishes = {})
        : tls_client{port, wishes.receive_bytes}
    {
        SSL_CTX_set_security_level(context_.get(), 0);  // otherwise it would not even offer TLS 1.1
        SSL_CTX_set_cipher_list(context_.get(), "ALL");
        SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
        if (SSL_CTX_load_verify_locations(context_.get(), root_file.c_str(), nullptr) != 1) fail("no root");
        SSL_CTX_set_min_proto_version(context_.get(), wishes.version_min);
        SSL_CTX_set_max_proto_version(context_.get(), wishes.version_max);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_fd(ssl_.get(), handle());
        SSL_set1_host(ssl_.get(), "127.0.0.1");
        if (!wishes.protocols.empty())
            SSL_set_alpn_protos(ssl_.get(), wishes.protocols.data(), static_cast<unsigned>(wishes.protocols.size()));
        if (wishes.resumed != nullptr) SSL_set_session(ssl_.get(), wishes.resumed);
        ERR_clear_error();
        if (SSL_connect(ssl_.get()) != 1) fail("no handshake");
    }

    bool send(std::string_view bytes) override
    {
        if (bytes.empty()) return true;
        std::size_t written = 0;
        return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1;
    }

    SSL* tls() const { return ssl_.get(); }

    /// The common name in the certificate that the server showed.
    std::string server_name() const
    {
        test_certificate const shown{SSL_get1_peer_certificate(ssl_.get())};
        char name[100] = "";
        X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name, sizeof name);
        return name;
    }
    std::string version() const { return SSL_get_version(ssl_.get()); }
    std::string protocol() const
    {
        unsigned char const* chosen = nullptr;
        unsigned size = 0;
        SSL_get0_alpn_selected(ssl_.get(), &chosen, &size);
        return {reinterpret_cast<char const*>(chosen), size};
    }

    /// Announces the end in TLS; the socket stays open.
    void say_end() { SSL_shutdown(ssl_.get()); }

    /// Whether the server announced the end in TLS before it closed: nothing was cut off.
    bool was_told_of_end() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }

protected:
    bool receive() override
    {
        char bytes[16 * 1024];
        std::size_t size = 0;
        if (SSL_read_ex(ssl_.get(), bytes, sizeof bytes, &size) == 1) return received_.append(bytes, size), true;
        if (SSL_get_error(ssl_.get(), 0) == SSL_ERROR_WANT_READ) throw std::runtime_error{"no answer in 30 s"};
        return false;
    }

private:
    // OpenSSL's write(2) to a server that has closed must be an error and not a signal.
    tls_client(std::uint16_t port, int receive_bytes) : raw_client{port, receive_bytes}
    {
        std::signal(SIGPIPE, SIG_IGN);
    }

    [[noreturn]] static void fail(char const* what)
    {
        auto const* const reason = ERR_reason_error_string(ERR_peek_error());
        throw std::runtime_error{std::string{what} + ": " + (reason != nullptr ? reason : "the connection ended")};
    }

    std::unique_ptr<SSL_CTX, openssl_deleter<SSL_CTX_free>> context_{SSL_CTX_new(TLS_client_method())};
    std::unique_ptr<SSL, openssl_deleter<SSL_free>> ssl_;
};

}  // namespace skald::test
