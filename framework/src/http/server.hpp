// The HTTP server: one I/O thread that reads and writes, and lanes that run the handler.
//
// A slow, silent or hostile client costs a connection and a few kilobytes, never a lane: a lane gets a request only
// when it was read completely, and is free again before the response is written.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <skald/config.hpp>
#include <skald/http.hpp>

#include "core/log.hpp"
#include "http/certificate.hpp"
#include "http/handler.hpp"
#include "http/observer.hpp"

namespace skald::http {

struct server_options
{
    std::string listen{"127.0.0.1:8080"};                     // HOST:PORT; port 0 picks a free one
    std::string listen_name{"SKALD_HTTP_LISTEN (--listen)"};  // the setting that its errors name
    http_limits limits{};
    std::size_t lanes{4};
    std::chrono::seconds wait_max{30};  // maximum wait for a better response, whatever the client asks for
    std::optional<tls_files> tls{};     // nothing: plain HTTP

    // When connections_max is reached, a new connection takes the place of the one that has waited longest for its
    // client: of those without a request; or, if this is set, also of those that are slow to send it or to read.
    bool sheds_slow_clients{false};

    bool operator==(server_options const&) const = default;
};

/// When connections_max is exceeded, this many at a time get a 503; any further ones are closed without a response.
inline constexpr std::size_t turned_away_max = 64;

/// How busy a server is at one moment.
struct server_load
{
    std::size_t connections{0};  // all that are open, whatever their state
    std::size_t waits{0};        // of those, the ones that wait for a better response
    std::size_t lanes_busy{0};
    std::size_t queued{0};      // requests waiting for a lane
    std::size_t body_bytes{0};  // of requests being received, waiting or being served

    bool operator==(server_load const&) const = default;
};

/// It may be different later: another program listens there, this machine does not have the address yet, or nobody
/// knows the host's name yet.
struct address_unavailable : std::runtime_error
{
    using runtime_error::runtime_error;
};

/// Threads: drain() and the destructor from one; the rest from any.
class server
{
public:
    /// Listens, so that errors of the address surface here; nothing is accepted before start(). Throws
    /// address_unavailable; std::runtime_error that names the setting if the address is malformed or may not be used,
    /// or if the TLS files can't be used. `observer`: is told of every response, and must outlive the server; null:
    /// nobody is.
    server(server_options options, handler on_request, core::logger& log, immediate_handler immediate = {},
           http::observer* observer = nullptr);

    /// Like drain(0): waits for running handlers; their responses are lost.
    ~server();

    std::uint16_t port() const;
    std::string address() const;  // "127.0.0.1:8080", with the actual port

    void start();

    /// For tests and diagnostics. Each number is read at its own moment, all at about the same time.
    server_load load() const;

    /// Accepts no more, closes connections that have no request, and lets the others finish with `Connection: close`.
    ///
    /// True if every completely read request got its response; all threads have then ended. False if `within` passed
    /// first: connections are closed and waiting requests discarded, but a handler that is still running can't be
    /// stopped, and the destructor waits for it.
    bool drain(std::chrono::milliseconds within);

private:
    class implementation;
    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald::http
