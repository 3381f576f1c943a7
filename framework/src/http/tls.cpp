#include "http/tls.hpp"

#include <utility>

#include <openssl/ssl.h>

#include <skald/errors.hpp>

#include "http/tls_stream.hpp"

namespace skald::http {
namespace {

// Chooses from the client's ALPN offer (RFC 7301). A client that offers only other protocols would not understand us.
int choose_protocol(SSL*, unsigned char const** chosen, unsigned char* size, unsigned char const* offered,
                    unsigned offered_size, void*)
{
    static constexpr unsigned char http11[]{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    unsigned char* found = nullptr;
    if (SSL_select_next_proto(&found, size, http11, sizeof http11, offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

void set_up(SSL_CTX& context)
{
    SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);  // whatever the system configuration says (RFC 8996)
    SSL_CTX_set_options(&context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_alpn_select_cb(&context, choose_protocol, nullptr);
    // Sessions are resumed with tickets, which take no memory here.
    SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(&context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(&context, 1);  // one read(2) for each record instead of two
}

}  // namespace

tls::tls(tls_files files, core::logger& log) : files_{std::move(files)}, log_{log} {}

tls_context tls::load() const
{
    auto context = load_certificate(files_);
    set_up(*context);
    if (is_readable_by_all(files_.key)) log_.warning("http.key_exposed", {{"file", files_.key}});
    auto const level = has_expired(*context) ? core::severity::warning : core::severity::info;
    log_.write(level, "http.certificate_loaded",
               {{"file", files_.certificate}, {"until", end_of_certificate(*context)}});
    return context;
}

void tls::renew()
{
    auto const now = read_stamps();
    if (now == seen_) return;
    try {
        context_ = load();
        not_read_.clear();
    }
    catch (certificate_not_read const& error) {
        // The next connection tries again; the error is logged once.
        if (std::exchange(not_read_, error.what()) != error.what())
            log_.warning("http.certificate_refused", {{"reason", error.what()}});
        return;
    }
    catch (configuration_error const& error) {
        log_.warning("http.certificate_refused", {{"reason", error.what()}});
    }
    seen_ = now;
}

std::unique_ptr<stream> tls::stream_over(boost::asio::ip::tcp::socket socket)
{
    renew();
    return tls_stream(std::move(socket), *context_);
}

}  // namespace skald::http
