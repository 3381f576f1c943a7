// The HTTP server: one I/O thread that reads and writes, and lanes that run the handler.
//
// A client that is slow, silent or hostile costs a connection and a few kilobytes, never a lane: a lane sees a request
// only when it was read whole, and is rid of it before the answer is written.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <skald/http.hpp>

#include "core/log.hpp"
#include "http/certificate.hpp"
#include "http/handler.hpp"

namespace skald::http {

struct server_options
{
    std::string listen{"127.0.0.1:8080"};                     // HOST:PORT; port 0 picks a free one
    std::string listen_name{"SKALD_HTTP_LISTEN (--listen)"};  // what errors of it say to look at
    std::size_t request_line_bytes_max{8 * 1024};
    std::size_t header_bytes_max{16 * 1024};  // the whole head, with the request line
    std::size_t header_count_max{64};
    std::size_t body_bytes_max{256 * 1024};
    std::size_t bodies_bytes_max{64 * 1024 * 1024};  // of all that are on their way, wait or are served
    std::chrono::milliseconds header_time{
        5'000};                                   // from a request's first byte to the end of its head; for a handshake
    std::chrono::milliseconds body_time{15'000};  // for the body, and what the next adds to it
    std::size_t body_rate_min{1024};              // bytes of the body that buy a second more; 0: none do
    std::chrono::milliseconds write_time{15'000};  // for one whole answer
    std::chrono::milliseconds idle_time{15'000};   // from an answer, or the connection's begin, to a first byte
    std::size_t connections_max{1024};
    std::size_t peer_connections_max{0};          // from one IPv4 address or IPv6 /64; 0: any number
    std::size_t connection_requests_max{10'000};  // then the connection is closed
    std::size_t lanes{4};
    std::size_t waiting_max{256};       // requests read whole that wait for a lane
    std::chrono::seconds wait_max{30};  // for a better answer, at most, whatever the client asks for
    std::size_t waits_max{256};         // clients that do so at a time; more hear how it stands
    std::optional<tls_files> tls{};     // nothing: plain HTTP

    bool operator==(server_options const&) const = default;
};

/// Beyond connections_max, this many at a time are told so; the rest are closed without a word.
inline constexpr std::size_t turned_away_max = 64;

/// How busy a server is at one moment.
struct server_load
{
    std::size_t connections{0};  // those that are open, whatever they do
    std::size_t waits{0};        // of those, the ones that wait for a better answer
    std::size_t lanes_busy{0};
    std::size_t queued{0};      // requests that wait for a lane
    std::size_t body_bytes{0};  // of requests that are on their way, wait or are served

    bool operator==(server_load const&) const = default;
};

/// Threads: drain() and the destructor from one; the rest from any.
class server
{
public:
    /// Listens, so that errors of the address come here; nothing is accepted before start().
    /// Throws std::runtime_error, naming the setting, if the address is malformed, in use or not of this machine, or if
    /// the files for TLS can't be used.
    server(server_options options, handler on_request, core::logger& log, immediate_handler immediate = {},
           lookup_handler lookup = {});

    /// As drain(0): what runs is waited for, its answer is lost.
    ~server();

    std::uint16_t port() const;
    std::string address() const;  // "127.0.0.1:8080", with the real port

    void start();

    /// For tests, and whoever wants to know. The numbers are each of its own moment, all of about now.
    server_load load() const;

    /// Accepts no more, closes connections that have no request, and lets the others finish with `Connection: close`.
    ///
    /// True if every request that was read whole was answered. Then all threads have ended. False if `within` passed
    /// before: connections are closed and waiting requests forgotten, but a handler that still runs can't be stopped,
    /// and is waited for by the destructor.
    bool drain(std::chrono::milliseconds within);

private:
    class implementation;
    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald::http
