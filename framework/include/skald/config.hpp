// Everything that can be set about a service's process: one aggregate, every default visible.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace skald {

/// How much a client may ask for, and for how long, before its connection is refused or closed. docs/http.md says what
/// it is answered at each of these.
struct http_limits
{
    std::size_t request_line_bytes_max{8 * 1024};    // without its end of line
    std::size_t header_bytes_max{16 * 1024};         // the whole head, with the request line
    std::size_t header_count_max{64};                // lines of the head
    std::size_t body_bytes_max{256 * 1024};          // without the framing of chunks
    std::size_t bodies_bytes_max{64 * 1024 * 1024};  // of all bodies that are read, wait or are served

    std::chrono::milliseconds header_time{5'000};  // from a request's first byte to the end of its head
    std::chrono::milliseconds body_time{15'000};   // for the body, and what body_rate_min adds to it
    std::size_t body_rate_min{1024};  // bytes that buy a second more; 0: none do, body_time is all there is
    std::chrono::milliseconds write_time{15'000};  // for one whole answer
    std::chrono::milliseconds idle_time{15'000};   // from an answer, or the connection's begin, to a first byte

    std::size_t connections_max{1024};    // at a time
    std::size_t peer_connections_max{0};  // of those, from one address; 0: any number, for a proxy is one address
    std::size_t connection_requests_max{10'000};  // on one connection; it is closed after the answer to the last
    std::size_t queue_max{256};                   // requests read whole that wait for a lane
    std::size_t waits_max{256};  // clients that wait for a better answer at a time; more hear how it stands

    // Answers of this process, kept in memory after COMMIT for whoever asks again soon; the database has them all.
    std::size_t kept_bytes_max{8 * 1024 * 1024};  // of all of them together; 0: none
    std::chrono::milliseconds kept_time{60'000};  // of each

    /// Whether every limit is the same.
    bool operator==(http_limits const&) const = default;
};

/// The settings of a service's process. The names are those of the variables: `lanes` is SKALD_LANES.
struct config
{
    std::string service;                                        // its name in definitions: "payments"
    std::string database_url;                                   // empty: libpq's PG* variables
    std::string amqp_url{"amqp://guest:guest@127.0.0.1:5672"};  // the nodes of a cluster: host:port,host:port
    std::string http_listen;                                    // "127.0.0.1:8080"; empty: no HTTP
    std::string health_listen{"127.0.0.1:0"};  // /livez and /readyz alone, whatever clients do to the other; "off": not
    std::string http_tls_certificate;  // a PEM file, with the chain; empty: plain HTTP. Read again when it was changed
    std::string http_tls_key;          // a PEM file with the certificate's key, not encrypted

    std::size_t lanes{4};                    // threads that run steps, each with a database connection
    std::size_t http_lanes{4};               // threads that run request handlers, likewise
    std::chrono::seconds http_wait_max{30};  // how long a client may wait for what is not there yet; 0: not at all
    http_limits http;                        // what else bounds its requests
    std::size_t batch_max{32};               // deliveries that a lane may run in one transaction; 1 to 64
    std::uint16_t prefetch{256};  // deliveries out and not yet acked: twice lanes x batch_max keeps the lanes busy

    std::string signatures{"off"};  // off; sign: what is sent; require: and park what comes and is not signed
    std::string signing_keys;       // files with a key each, FILE or FILE,FILE: the first signs, both are taken

    bool declare{true};                         // make the exchanges and queues; or `skald declare` has made them
    bool relay{true};                           // move this database's outbox to the broker from within this process
    bool migrate{true};                         // bring the database up to date at start
    bool migrate_only{false};                   // and end then, without a broker
    std::size_t relay_batch_max{500};           // rows that it moves at a time
    std::chrono::milliseconds relay_poll{200};  // how often it looks without being woken

    /// A message that goes to the broker straight from memory: how long the relay leaves its
    /// row alone. 0: none goes so.
    std::chrono::milliseconds dispatch_grace{5'000};

    std::chrono::milliseconds lock_timeout{5'000};        // for a lock
    std::chrono::milliseconds statement_timeout{30'000};  // for a statement
    std::chrono::milliseconds commit_timeout{10'000};     // beyond statement_timeout: then a silent database is cut off
    std::int64_t outbox_max{100'000};  // messages waiting, above which a request with a new key gets 503; 0: never
    std::chrono::seconds drain{20};    // from SIGTERM to exit

    bool purge{true};                      // delete records of sagas that ended long ago, a few at a time
    int retention_days{30};                // how long ago: a day at least
    std::chrono::seconds purge_every{60};  // how often it looks for some

    std::string log_level{"info"};  // debug, info, warning, error

    /// From DATABASE_URL, AMQP_URL and the SKALD_* variables; docs/operations.md lists them, and so does --help.
    /// Throws: configuration_error that names the variable, also for a SKALD_* one that does not exist.
    /// Threads: any, while none changes the environment.
    static config from_environment(std::string service);

    /// The same, then what the command line says: `--lanes 8` is SKALD_LANES=8, `--listen` is SKALD_HTTP_LISTEN.
    static config from_environment(std::string service, int argc, char const* const* argv);

    /// The settings with their meaning and defaults, for --help.
    static std::string help();

    /// Throws configuration_error for what can't work. The worker's constructor calls it.
    void check() const;
};

}  // namespace skald
