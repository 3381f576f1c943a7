#include "rabbitmq/connection.hpp"

#include "core/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace skald::rabbitmq {
namespace {

constexpr int channel_max = 8;

constexpr std::chrono::seconds unread_max_wait{1};

amqp_table_entry_t flag(char const* name)
{
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    entry.value.value.boolean = 1;
    return entry;
}

/// Without a CA certificate rabbitmq-c verifies against nothing and fails. 0.11 can't load the system's default paths,
/// so the file is named.
std::string authorities(address const& where)
{
    if (!where.cacertfile.empty()) return where.cacertfile;
    if (char const* file = std::getenv("SSL_CERT_FILE")) return file;
    for (char const* file :
         {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"})
        if (::access(file, R_OK) == 0) return file;
    throw connection_lost{"TLS: no certificate authorities found: set ?cacertfile= in the URL or SSL_CERT_FILE"};
}

amqp_socket_t* new_tls_socket(amqp_connection_state_t state, address const& where)
{
    auto* const socket = amqp_ssl_socket_new(state);
    if (!socket) throw connection_lost{"TLS: no socket could be made"};
    auto const file = authorities(where);
    if (amqp_ssl_socket_set_cacert(socket, file.c_str()) != AMQP_STATUS_OK)
        throw connection_lost{"TLS: no certificates can be read from " + file};
    if (!where.certfile.empty() &&
        amqp_ssl_socket_set_key(socket, where.certfile.c_str(), where.keyfile.c_str()) != AMQP_STATUS_OK)
        throw connection_lost{"TLS: no certificate and key in " + where.certfile + " and " + where.keyfile};
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 0);  // see expect_certificate_of
    amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    return socket;
}

/// The next connection's certificate must be that of `host`. OpenSSL checks it, since rabbitmq-c compares names only,
/// and a broker may be known by its address (RFC 9525, 6.5).
void expect_certificate_of(std::string const& host, amqp_socket_t* socket)
{
    auto* const rules = SSL_CTX_get0_param(static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket)));
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(rules, nullptr, 0);
    X509_VERIFY_PARAM_set1_ip(rules, nullptr, 0);
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1) return;
    if (X509_VERIFY_PARAM_set1_host(rules, host.c_str(), host.size()) != 1)
        throw connection_lost{"TLS: no certificate can be for the host " + host};
}

[[noreturn]] void throw_close(std::uint16_t code, amqp_bytes_t text, std::string_view what)
{
    throw refused_by_broker{code, fmt::format("the broker closed the {}: {} {}", what, code, view(text))};
}

[[noreturn]] void throw_close(amqp_method_t const& method)
{
    if (method.id == AMQP_CHANNEL_CLOSE_METHOD) {
        auto const& close = *static_cast<amqp_channel_close_t const*>(method.decoded);
        throw_close(close.reply_code, close.reply_text, "channel");
    }
    auto const& close = *static_cast<amqp_connection_close_t const*>(method.decoded);
    throw_close(close.reply_code, close.reply_text, "connection");
}

std::string why_not_opened(int status)
{
    if (status == AMQP_STATUS_SSL_PEER_VERIFY_FAILED)
        return "its certificate is not for this host, has expired, or is not signed by an authority in cacertfile";
    if (status == AMQP_STATUS_SOCKET_ERROR) return "nothing accepts a connection there";
    return amqp_error_string2(status);
}

bool is_close(amqp_frame_t const& frame)
{
    return frame.frame_type == AMQP_FRAME_METHOD && (frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD ||
                                                     frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD);
}

}  // namespace

connection::connection(connection_settings const& settings, sockets::socket_interrupter& interrupter)
    : state_{amqp_new_connection()}, interrupter_{interrupter}, vhost_{settings.where.vhost}
{
    if (!state_) throw std::bad_alloc{};
    open_socket(settings);
    interrupter_.hold(socket());
    try {
        log_in(settings);
        amqp_channel_open(raw(), the_channel);
        check_last("opening a channel");
    }
    catch (...) {
        interrupter_.release();
        throw;
    }
}

connection::~connection()
{
    interrupter_.release();
}

// Tries several nodes one after the other, in random order, so that clients spread over a cluster, and waits for a node
// that is away no longer than its share of the time.
void connection::open_socket(connection_settings const& settings)
{
    auto const& where = settings.where;
    auto* const socket = where.tls ? new_tls_socket(raw(), where) : amqp_tcp_socket_new(raw());
    if (!socket) throw std::bad_alloc{};
    auto nodes = where.endpoints;
    SKALD_ASSERT(!nodes.empty());  // parse_url() never returns none
    std::shuffle(nodes.begin(), nodes.end(), std::random_device{});
    auto const timeout = to_timeval(settings.connect_timeout / static_cast<int>(nodes.size()));
    std::string tried;
    for (auto const& node : nodes) {
        if (where.tls) expect_certificate_of(node.host, socket);
        auto const status = amqp_socket_open_noblock(socket, node.host.c_str(), node.port, &timeout);
        if (status == AMQP_STATUS_OK) return;
        tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", describe(node), why_not_opened(status));
    }
    throw connection_lost{"no connection to " + tried};
}

void connection::log_in(connection_settings const& settings)
{
    auto const timeout = to_timeval(settings.connect_timeout);
    amqp_set_handshake_timeout(raw(), &timeout);
    amqp_set_rpc_timeout(raw(), &timeout);  // infinite by default

    // The broker reports only what is requested here: otherwise a consumer of a deleted queue waits indefinitely.
    std::array capabilities{flag("connection.blocked"), flag("consumer_cancel_notify"), flag("basic.nack"),
                            flag("publisher_confirms"), flag("authentication_failure_close")};
    std::array<amqp_table_entry_t, 2> properties{};
    properties[0].key = amqp_cstring_bytes("capabilities");
    properties[0].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[0].value.value.table = {static_cast<int>(capabilities.size()), capabilities.data()};
    properties[1].key = amqp_cstring_bytes("connection_name");
    properties[1].value.kind = AMQP_FIELD_KIND_UTF8;
    properties[1].value.value.bytes = bytes(settings.name);
    amqp_table_t const table{static_cast<int>(properties.size()), properties.data()};

    auto const& where = settings.where;
    check(amqp_login_with_properties(raw(), where.vhost.c_str(), channel_max, AMQP_DEFAULT_FRAME_SIZE,
                                     settings.heartbeat_seconds, &table, AMQP_SASL_METHOD_PLAIN, where.user.c_str(),
                                     where.password.c_str()),
          "logging in");
    heartbeat_seconds_ = amqp_get_heartbeat(raw());
}

void connection::expect_larger_frames()
{
    // The library aborts the process if it is in the middle of a frame; then the limit just stays as it is.
    if (!amqp_release_buffers_ok(raw())) return;
    check(amqp_tune_connection(raw(), channel_max, 2 * AMQP_DEFAULT_FRAME_SIZE, heartbeat_seconds_), "making room");
}

std::optional<amqp_frame_t> connection::read(std::chrono::milliseconds wait)
{
    amqp_frame_t frame{};
    auto const timeout = to_timeval(wait);
    auto const status = amqp_simple_wait_frame_noblock(raw(), &frame, &timeout);
    if (status == AMQP_STATUS_TIMEOUT) return std::nullopt;
    if (status == AMQP_STATUS_BAD_AMQP_DATA) throw undecodable{"reading: the broker sent what can't be decoded"};
    check(status, "reading");
    if (is_close(frame)) answer_close(frame);
    return frame;
}

void connection::answer_close(amqp_frame_t const& frame)
{
    // Only a courtesy: the broker may be gone already, so the status does not matter.
    if (frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
        amqp_channel_close_ok_t answer{};
        amqp_send_method(raw(), frame.channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
    }
    else {
        amqp_connection_close_ok_t answer{};
        amqp_send_method(raw(), 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &answer);
    }
    throw_close(frame.payload.method);
}

void connection::send(amqp_method_number_t method, void* fields, char const* doing)
{
    check(amqp_send_method(raw(), the_channel, method, fields), doing);
}

void connection::close_unread() noexcept
{
    // The broker closes the channel when it has processed what came before on it, and then its end of the connection.
    // To close with bytes unread would reset the connection instead, and what was sent may be lost.
    amqp_channel_close_t channel_close{AMQP_REPLY_SUCCESS, amqp_empty_bytes, 0, 0};
    amqp_connection_close_t connection_close{AMQP_REPLY_SUCCESS, amqp_empty_bytes, 0, 0};
    if (amqp_send_method(raw(), the_channel, AMQP_CHANNEL_CLOSE_METHOD, &channel_close) != AMQP_STATUS_OK ||
        amqp_send_method(raw(), 0, AMQP_CONNECTION_CLOSE_METHOD, &connection_close) != AMQP_STATUS_OK)
        return;
    std::array<char, 16 * 1024> unread;
    auto const until = std::chrono::steady_clock::now() + unread_max_wait;
    pollfd readable{socket(), POLLIN, 0};
    while (std::chrono::steady_clock::now() < until && ::poll(&readable, 1, 100) >= 0)
        if (readable.revents != 0 && ::recv(socket(), unread.data(), unread.size(), MSG_DONTWAIT) == 0) return;
}

void connection::close(std::chrono::milliseconds timeout) noexcept
{
    auto const longest = to_timeval(timeout);
    amqp_set_rpc_timeout(raw(), &longest);
    amqp_connection_close(raw(), AMQP_REPLY_SUCCESS);
}

void connection::check(int status, char const* doing) const
{
    if (status < 0) throw connection_lost{fmt::format("{}: {}", doing, amqp_error_string2(status))};
}

void connection::check(amqp_rpc_reply_t const& reply, char const* doing) const
{
    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL: return;
    case AMQP_RESPONSE_SERVER_EXCEPTION: throw_close(reply.reply);
    case AMQP_RESPONSE_LIBRARY_EXCEPTION: check(reply.library_error, doing); [[fallthrough]];
    default: throw connection_lost{fmt::format("{}: no reply", doing)};
    }
}

}  // namespace skald::rabbitmq
