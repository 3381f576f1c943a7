// All settings of a service's process: one aggregate, every default visible.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace skald {

/// How much a client may send, and how long it may take, before its request is refused or its connection closed.
/// docs/http.md lists the response at each of these limits.
struct http_limits
{
    std::size_t request_line_bytes_max{8 * 1024};    // without its end of line
    std::size_t header_bytes_max{16 * 1024};         // the whole head, including the request line
    std::size_t header_count_max{64};                // lines of the head
    std::size_t body_bytes_max{256 * 1024};          // without the framing of chunks
    std::size_t bodies_bytes_max{64 * 1024 * 1024};  // of all bodies being read, waiting or being served

    std::chrono::milliseconds header_time{5'000};  // from a request's first byte to the end of its head
    std::chrono::milliseconds body_time{15'000};   // for the body; body_rate_min extends it
    std::size_t body_rate_min{1024};               // received bytes that extend it by a second; 0: it is never extended
    std::chrono::milliseconds write_time{15'000};  // for one whole response
    std::chrono::milliseconds idle_time{15'000};   // from a response, or the connection's start, to a first byte

    std::size_t connections_max{1024};    // at a time
    std::size_t peer_connections_max{0};  // of those, from one address; 0: any number, since a proxy is one address
    std::size_t connection_requests_max{10'000};  // on one connection; it is closed after the response to the last
    std::size_t queue_max{256};                   // fully read requests that wait for a lane
    std::size_t waits_max{256};  // clients waiting for a result at a time; any more get the current state at once

    // The response cache: this process's responses, in memory after COMMIT for retries; the database has them all.
    std::size_t kept_bytes_max{8 * 1024 * 1024};  // of all of them together; 0: no cache
    std::chrono::milliseconds kept_time{60'000};  // of each

    /// Whether all limits are equal.
    bool operator==(http_limits const&) const = default;
};

/// The settings of a service's process, named like the environment variables: `lanes` is SKALD_LANES.
struct config
{
    std::string database_url;                                   // empty: libpq's PG* variables
    std::string amqp_url{"amqp://guest:guest@127.0.0.1:5672"};  // the nodes of a cluster: host:port,host:port
    std::string transport{"rabbitmq"};  // how messages travel: rabbitmq, kafka, or postgres (then there is no broker)
    std::string peers_file;             // with postgres: a file with a line SERVICE=URL for each service's database
    std::string kafka_brokers;          // with kafka: host:port,host:port, some of the cluster
    std::string kafka_properties;       // a file with further properties of librdkafka, for TLS and SASL
    int kafka_partitions{12};           // of a topic that is made: so many processes of a service may consume at a time
    int kafka_replicas{0};              // of a topic that is made; 0: as the cluster has it
    int kafka_min_insync{0};            // its `min.insync.replicas`, likewise
    std::string http_listen;            // "127.0.0.1:8080"; empty: no HTTP
    std::string health_listen{"127.0.0.1:0"};  // /livez, /readyz, /metrics, apart from the other's load; "off": none
    std::string http_tls_certificate;  // a PEM file, with the chain; empty: plain HTTP. Reloaded when it changes
    std::string http_tls_key;          // a PEM file with the certificate's key, not encrypted

    std::size_t lanes{4};                    // threads that run steps, each with a database connection
    std::size_t calls{8};                    // threads that make the calls of external steps; none holds a connection
    std::size_t http_lanes{4};               // threads that run request handlers, each with a database connection
    std::chrono::seconds http_wait_max{30};  // how long a client may wait for a result; 0: not at all
    http_limits http;                        // the other limits of its requests
    std::size_t batch_max{32};               // deliveries that a lane may run in one transaction; 1 to 64
    std::uint16_t prefetch{256};  // deliveries out and not yet acked: twice lanes x batch_max keeps the lanes busy

    std::string signatures{"off"};  // off; sign: messages that are sent; require: also park unsigned ones that arrive
    std::string signing_keys;       // files with a key each, FILE or FILE,FILE: the first signs, both are accepted

    std::size_t body_inline_max{64 * 1024};  // bytes of a body that stay in its message or row: docs/bodies.md
    std::size_t body_max{64 * 1024 * 1024};  // bytes of the largest one that is sent or stored
    std::string body_store{"database"};      // where larger ones are kept; services share directory:/PATH, and s3:URL
    std::string s3_key;                      // what signs requests to S3: AWS_ACCESS_KEY_ID
    std::string s3_secret;                   // AWS_SECRET_ACCESS_KEY
    std::string s3_token;                    // AWS_SESSION_TOKEN, if the credentials are a session's
    std::string s3_region{"us-east-1"};      // AWS_REGION

    std::string guard{"postgres"};  // or cache_aside, lock, accelerator, redis_only: what is in front, docs/redis.md
    std::string redis_url;          // redis://, rediss:// or redis-sentinel://; only where something is in front
    std::chrono::milliseconds redis_time{5};       // how long a request waits for Redis before it does without
    std::chrono::milliseconds redis_hold{3'000};   // how long a mark lasts there without its process
    std::chrono::milliseconds redis_epoch{1'000};  // for how long a claim's word on the database's epoch is believed

    bool declare{true};                         // declare exchanges and queues; false: `skald declare` has done so
    bool relay{true};                           // move this database's outbox to the broker from within this process
    bool migrate{true};                         // migrate the database at start
    bool migrate_only{false};                   // and then exit, without a broker
    std::size_t relay_batch_max{500};           // rows that the relay moves at a time
    std::chrono::milliseconds relay_poll{200};  // how often it polls without being woken

    /// The dispatch grace period: how long relays leave the row of a message alone that is published straight from
    /// memory. 0: none is published that way.
    std::chrono::milliseconds dispatch_grace{5'000};

    std::chrono::milliseconds lock_timeout{5'000};        // for a lock
    std::chrono::milliseconds statement_timeout{30'000};  // for a statement
    std::chrono::milliseconds commit_timeout{10'000};     // past statement_timeout; then a silent connection is dropped
    std::int64_t outbox_max{100'000};  // messages waiting, above which a request with a new key gets 503; 0: never
    std::chrono::seconds drain{20};    // from SIGTERM to exit

    /// How long a message waits for a process that has its step, or the version of its saga, before it is parked: while
    /// a newer version is being deployed, older processes take messages off the same queue. 0: it does not wait.
    std::chrono::seconds deploy_wait{900};

    /// What a process does at start about sagas under way that it could not run. on: it does not start without a step
    /// that they need, and warns of data that it can't read; refuse: nor then; warn: warns of both; off: does not look.
    std::string start_check{"on"};

    /// A file to which each process appends the first delivery that it gets of each step and version, with its data, to
    /// be read in a test of a later version. Empty: none.
    std::string record_deliveries;

    bool purge{true};                      // delete records of sagas that ended long ago, a few at a time
    int retention_days{30};                // how long ago: at least a day
    std::chrono::seconds purge_every{60};  // how often it checks for some

    std::string log_level{"info"};          // debug, info, warning, error
    std::string log_format{"text"};         // text; json: an object for each line
    std::string access_log_level{"debug"};  // of the line for each request; one that got 401, 422 or 429 is info

    std::string otlp_endpoint;  // of a collector that gets spans: "http://127.0.0.1:4318"; empty: none are made
    double trace_ratio{1.0};    // the share of traces that begin here which is sampled; of others, the parent decides

    /// From DATABASE_URL, AMQP_URL and the SKALD_* variables; docs/operations.md lists them, and so does --help-all.
    /// Throws: configuration_error that names the variable, also for an unknown SKALD_* variable.
    /// Threads: any, as long as none changes the environment.
    static config from_environment();

    /// The same, then the command line: `--lanes 8` is SKALD_LANES=8, `--listen` is SKALD_HTTP_LISTEN.
    static config from_environment(int argc, char const* const* argv);

    /// The settings with their meaning and defaults: those that most services set, for --help; or all, for --help-all.
    static std::string help(bool all = false);

    /// Throws configuration_error for settings that can't work. The worker's constructor calls it.
    void check() const;
};

}  // namespace skald
