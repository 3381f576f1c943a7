#include "worker/settings.hpp"

#include "core/log.hpp"
#include "entry/guard_way.hpp"
#include "http/listen_address.hpp"
#include "tracing/exporter.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace skald::worker_detail {
namespace {

template <class Number>
Number whole(std::string_view text, Number least, Number most)
{
    Number number{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
        throw std::invalid_argument{fmt::format("a whole number from {} to {}", least, most)};
    return number;
}

bool on_or_off(std::string_view text)
{
    if (text == "on") return true;
    if (text == "off") return false;
    throw std::invalid_argument{"on or off"};
}

// Empty means no listener, in a config that a program fills in. Whether the address is free shows only when listening.
std::string listen_address(std::string_view text)
try {
    if (!text.empty()) http::parse_listen_address(text, "");
    return std::string{text};
}
catch (std::runtime_error const&) {
    throw std::invalid_argument{"HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"};
}

// A member of config, or of its http_limits.
template <auto member>
auto& in(auto& c)
{
    if constexpr (requires { c.*member; }) return c.*member;
    else return c.http.*member;
}

std::string shown(std::string const& text)
{
    return text;
}
std::string shown(bool flag)
{
    return flag ? "on" : "off";
}
template <class Rep, class Period>
std::string shown(std::chrono::duration<Rep, Period> time)
{
    return std::to_string(time.count());
}
template <std::integral Number>
std::string shown(Number number)
{
    return std::to_string(number);
}

template <auto member>
std::string show(config const& c)
{
    return shown(in<member>(c));
}

// A number, or a time in its own unit.
template <auto member, std::int64_t least, std::int64_t most>
void set_number(config& c, std::string_view value)
{
    auto& at = in<member>(c);
    using type = std::remove_reference_t<decltype(at)>;
    auto const number = whole<std::int64_t>(value, least, most);
    if constexpr (std::integral<type>) at = static_cast<type>(number);
    else at = type{number};
}

template <auto member>
void set_switch(config& c, std::string_view value)
{
    in<member>(c) = on_or_off(value);
}

template <auto member>
void set_text(config& c, std::string_view value)
{
    in<member>(c) = value;
}

void set_health_listen(config& c, std::string_view value)
{
    c.health_listen = value == "off" ? std::string{value} : listen_address(value);
}

void set_signatures(config& c, std::string_view value)
{
    if (value != "off" && value != "sign" && value != "require") throw std::invalid_argument{"off, sign or require"};
    c.signatures = value;
}

void set_start_check(config& c, std::string_view value)
{
    if (value != "on" && value != "refuse" && value != "warn" && value != "off")
        throw std::invalid_argument{"on, refuse, warn or off"};
    c.start_check = value;
}

void set_transport(config& c, std::string_view value)
{
    if (value != "rabbitmq" && value != "kafka" && value != "postgres")
        throw std::invalid_argument{"rabbitmq, kafka or postgres"};
    c.transport = value;
}

void set_log_format(config& c, std::string_view value)
{
    if (value != "text" && value != "json") throw std::invalid_argument{"text or json"};
    c.log_format = value;
}

void set_otlp_endpoint(config& c, std::string_view value)
{
    if (!value.empty()) tracing::parse_endpoint(value);
    c.otlp_endpoint = value;
}

void set_trace_ratio(config& c, std::string_view value)
{
    double ratio{};
    auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), ratio);
    if (error != std::errc{} || end != value.data() + value.size() || !(ratio >= 0 && ratio <= 1))
        throw std::invalid_argument{"a number from 0 to 1"};
    c.trace_ratio = ratio;
}

// `database`, or a directory that exists by the time it is used: a mount may come later than this process.
void set_body_store(config& c, std::string_view value)
{
    constexpr std::string_view directory = "directory:/";
    auto const is_one = [&](std::string_view mark) { return value.starts_with(mark) && value.size() > mark.size(); };
    if (value != "database" && !is_one(directory) && !is_one("s3:http://") && !is_one("s3:https://"))
        throw std::invalid_argument{"database, directory:/PATH, or s3:https://host:port/bucket/prefix"};
    c.body_store = value;
}

void set_guard(config& c, std::string_view value)
{
    if (!entry_detail::parse_guard_way(value))
        throw std::invalid_argument{fmt::format("one of {}", fmt::join(entry_detail::guard_ways, ", "))};
    c.guard = value;
}

void set_migrate(config& c, std::string_view value)
{
    if (value != "on" && value != "off" && value != "only") throw std::invalid_argument{"on, off or only"};
    c.migrate_only = value == "only";
    c.migrate = value != "off";
}

struct name_of_setting
{
    std::string_view variable;
    std::string_view flag;
};

template <auto member, std::int64_t least, std::int64_t most>
constexpr setting number(setting_group group, name_of_setting name, std::string_view meaning)
{
    return {group, name.variable, name.flag, meaning, set_number<member, least, most>, show<member>};
}

// At most an hour.
template <auto member, std::int64_t least = 1>
constexpr setting milliseconds(setting_group group, name_of_setting name, std::string_view meaning)
{
    return number<member, least, 3'600'000>(group, name, meaning);
}

template <auto member>
constexpr setting on_off(setting_group group, name_of_setting name, std::string_view meaning)
{
    return {group, name.variable, name.flag, meaning, set_switch<member>, show<member>};
}

template <auto member>
constexpr setting text(setting_group group, name_of_setting name, std::string_view meaning)
{
    return {group, name.variable, name.flag, meaning, set_text<member>, show<member>};
}

using enum setting_group;

constexpr std::array table{
    setting{usual, "DATABASE_URL", "",
            "the service's database (a URL or keywords; without it libpq's PG* variables count)",
            set_text<&config::database_url>, [](config const&) { return std::string{"libpq's PG* variables"}; }},
    setting{usual, "AMQP_URL", "", "the broker: amqp[s]://user:password@host:port[,host:port...]/vhost",
            set_text<&config::amqp_url>, [](config const&) { return std::string{"localhost"}; }},
    setting{usual, "SKALD_HTTP_LISTEN", "--listen", "HOST:PORT to serve HTTP on; port 0 picks a free one",
            [](config& c, std::string_view v) { c.http_listen = listen_address(v); }, show<&config::http_listen>},
    setting{usual, "SKALD_HEALTH_LISTEN", "--health-listen",
            "HOST:PORT to serve /livez, /readyz and /metrics on, whatever the other is busy with; off: none",
            set_health_listen, show<&config::health_listen>},
    text<&config::http_tls_certificate>(
        usual, {"SKALD_HTTP_TLS_CERTIFICATE", "--http-tls-certificate"},
        "a PEM file with the certificate and its chain: serve HTTPS only; reloaded when it changes"),
    text<&config::http_tls_key>(usual, {"SKALD_HTTP_TLS_KEY", "--http-tls-key"},
                                "a PEM file with the certificate's key, not encrypted"),
    number<&config::lanes, 1, 256>(usual, {"SKALD_LANES", "--lanes"},
                                   "threads that run steps, each with a database connection"),
    number<&config::http_lanes, 1, 256>(usual, {"SKALD_HTTP_LANES", "--http-lanes"},
                                        "threads that run request handlers, each with a database connection"),
    number<&config::retention_days, 1, 36'500>(usual, {"SKALD_RETENTION_DAYS", "--retention-days"},
                                               "how long records stay after their saga's end; a day at least"),
    setting{usual, "SKALD_LOG_LEVEL", "--log-level", "debug, info, warning or error",
            [](config& c, std::string_view v) { core::parse_severity(v), c.log_level = v; }, show<&config::log_level>},

    setting{other, "SKALD_TRANSPORT", "--transport",
            "how messages travel: rabbitmq; kafka; postgres: from database to database, without a broker",
            set_transport, show<&config::transport>},
    text<&config::peers_file>(other, {"SKALD_PEERS_FILE", "--peers-file"},
                              "with postgres: a file with a line SERVICE=URL for the database of each service"),
    text<&config::kafka_brokers>(other, {"SKALD_KAFKA_BROKERS", "--kafka-brokers"},
                                 "with kafka: HOST:PORT,HOST:PORT, some of the cluster"),
    text<&config::kafka_properties>(
        other, {"SKALD_KAFKA_PROPERTIES", "--kafka-properties"},
        "with kafka: a file with a line NAME=VALUE for each further property of librdkafka"),
    number<&config::kafka_partitions, 1, 10'000>(other, {"SKALD_KAFKA_PARTITIONS", "--kafka-partitions"},
                                                 "with kafka: partitions of a topic that is made"),
    number<&config::kafka_replicas, 0, 100>(other, {"SKALD_KAFKA_REPLICAS", "--kafka-replicas"},
                                            "with kafka: replicas of a topic that is made; 0: as the cluster has it"),
    number<&config::kafka_min_insync, 0, 100>(
        other, {"SKALD_KAFKA_MIN_INSYNC", "--kafka-min-insync"},
        "with kafka: replicas that must have a record before it is confirmed; 0: as the cluster has it"),
    number<&config::calls, 1, 1'024>(other, {"SKALD_CALLS", "--calls"},
                                     "threads that make the calls of external steps; each without a connection"),
    number<&config::batch_max, 1, 64>(other, {"SKALD_BATCH_MAX", "--batch-max"},
                                      "deliveries that a lane may run in one transaction; 1: each has its own"),
    number<&config::prefetch, 1, 10'000>(other, {"SKALD_PREFETCH", "--prefetch"},
                                         "deliveries received from the broker and not yet acked"),
    setting{other, "SKALD_SIGNATURES", "--signatures",
            "sign: messages that are sent; require: also park unsigned ones that arrive", set_signatures,
            show<&config::signatures>},
    text<&config::signing_keys>(other, {"SKALD_SIGNING_KEYS", "--signing-keys"},
                                "FILE or FILE,FILE with a key each: the first signs, both are accepted"),
    setting{other, "SKALD_GUARD", "--guard",
            "postgres; in front of it, by Redis: cache_aside, lock, accelerator; redis_only: docs/redis.md", set_guard,
            show<&config::guard>},
    setting{other, "SKALD_REDIS_URL", "",
            "redis[s]://[user:password@]host[:port][/number], or "
            "redis-sentinel://[user:password@]host[:port],.../name[/number]",
            set_text<&config::redis_url>, show<&config::redis_url>},
    number<&config::redis_time, 1, 1'000>(other, {"SKALD_REDIS_MS", "--redis-ms"},
                                          "how long a request waits for Redis before it does without"),
    milliseconds<&config::redis_hold, 100>(other, {"SKALD_REDIS_HOLD_MS", "--redis-hold-ms"},
                                           "how long a mark of a request lasts in Redis after its process has died"),
    number<&config::redis_epoch, 1, 60'000>(other, {"SKALD_REDIS_EPOCH_MS", "--redis-epoch-ms"},
                                            "how old the last claim may be for Redis's responses to be believed"),
    on_off<&config::declare>(other, {"SKALD_DECLARE", "--declare"},
                             "on: declare exchanges and queues at each connect; off: `skald declare` has"),
    on_off<&config::relay>(other, {"SKALD_RELAY", "--relay"},
                           "on: move the outbox to the broker from here; off: `skald relay` does"),
    number<&config::relay_batch_max, 1, 10'000>(other, {"SKALD_RELAY_BATCH_MAX", "--relay-batch-max"},
                                                "rows that the relay moves at a time"),
    milliseconds<&config::relay_poll>(other, {"SKALD_RELAY_POLL_MS", "--relay-poll-ms"},
                                      "how often the relay polls without being woken"),
    milliseconds<&config::dispatch_grace, 0>(
        other, {"SKALD_DISPATCH_GRACE_MS", "--dispatch-grace-ms"},
        "how long a relay leaves a message alone that is sent from memory; 0: none is"),
    number<&config::body_inline_max, 1'024, 1'048'576>(
        other, {"SKALD_BODY_INLINE_MAX", "--body-inline-max"},
        "bytes of a body that stay in its message or row; larger ones are kept apart"),
    number<&config::body_max, 1'048'576, 67'108'864>(other, {"SKALD_BODY_MAX", "--body-max"},
                                                     "bytes of the largest body that is sent or stored"),
    setting{other, "SKALD_BODY_STORE", "--body-store",
            "where: database, this service's own; directory:/PATH or s3:https://host/bucket, which services share",
            set_body_store, show<&config::body_store>},
    setting{other, "AWS_ACCESS_KEY_ID", "", "of S3: what signs requests", set_text<&config::s3_key>,
            show<&config::s3_key>},
    setting{other, "AWS_SECRET_ACCESS_KEY", "", "its secret", set_text<&config::s3_secret>,
            [](config const& c) { return std::string{c.s3_secret.empty() ? "" : "(set)"}; }},
    setting{other, "AWS_SESSION_TOKEN", "", "if the two are a session's", set_text<&config::s3_token>,
            [](config const& c) { return std::string{c.s3_token.empty() ? "" : "(set)"}; }},
    setting{other, "AWS_REGION", "", "the region of S3 that they are signed for", set_text<&config::s3_region>,
            show<&config::s3_region>},
    setting{other, "SKALD_MIGRATE", "--migrate", "on: migrate the database at start; only: and then exit", set_migrate,
            [](config const& c) { return c.migrate_only ? "only" : shown(c.migrate); }},
    milliseconds<&config::lock_timeout>(other, {"SKALD_LOCK_TIMEOUT_MS", "--lock-timeout-ms"},
                                        "how long a statement waits for a lock"),
    milliseconds<&config::statement_timeout>(other, {"SKALD_STATEMENT_TIMEOUT_MS", "--statement-timeout-ms"},
                                             "how long a statement may take"),
    milliseconds<&config::commit_timeout>(other, {"SKALD_COMMIT_TIMEOUT_MS", "--commit-timeout-ms"},
                                          "past the statement timeout: when a silent connection is dropped"),
    number<&config::outbox_max, 0, 1'000'000'000>(
        other, {"SKALD_OUTBOX_MAX", "--outbox-max"},
        "messages waiting, above which requests with a new key get 503; 0: never"),
    number<&config::deploy_wait, 0, 86'400>(
        other, {"SKALD_DEPLOY_WAIT_SECONDS", "--deploy-wait-seconds"},
        "how long a message waits for a process that has its step or version; 0: it is parked at once"),
    setting{
        other, "SKALD_START_CHECK", "--start-check",
        "on: no start without a step that sagas under way need; refuse: nor with data that can't be read; warn; off",
        set_start_check, show<&config::start_check>},
    text<&config::record_deliveries>(
        other, {"SKALD_RECORD_DELIVERIES", "--record-deliveries"},
        "a file for the first delivery of each step and version, with its data, for tests"),
    on_off<&config::purge>(other, {"SKALD_PURGE", "--purge"},
                           "on: delete records of sagas that ended long ago, a few at a time"),
    number<&config::purge_every, 1, 86'400>(other, {"SKALD_PURGE_SECONDS", "--purge-seconds"},
                                            "how often the purge checks for some"),
    setting{other, "SKALD_LOG_FORMAT", "--log-format", "text; json: an object for each line", set_log_format,
            show<&config::log_format>},
    setting{other, "SKALD_ACCESS_LOG_LEVEL", "--access-log-level",
            "of the line for each request; one that got 401, 422 or 429 is info",
            [](config& c, std::string_view v) { core::parse_severity(v), c.access_log_level = v; },
            show<&config::access_log_level>},
    setting{other, "OTEL_EXPORTER_OTLP_ENDPOINT", "--otel-exporter-otlp-endpoint",
            "http://HOST:PORT of a collector that gets spans by OTLP/HTTP", set_otlp_endpoint,
            show<&config::otlp_endpoint>},
    setting{other, "OTEL_TRACES_SAMPLER_ARG", "--otel-traces-sampler-arg",
            "0 to 1: the share of traces beginning here that is sampled; of others, the parent decides",
            set_trace_ratio, [](config const& c) { return fmt::format("{}", c.trace_ratio); }},
    number<&config::drain, 1, 3600>(other, {"SKALD_DRAIN_SECONDS", "--drain-seconds"}, "from SIGTERM to exit, at most"),

    number<&config::http_wait_max, 0, 600>(http_limit, {"SKALD_HTTP_WAIT_SECONDS", "--http-wait-seconds"},
                                           "how long a client may wait for a result; 0: not at all"),
    number<&http_limits::request_line_bytes_max, 64, 65'536>(
        http_limit, {"SKALD_HTTP_LINE_BYTES_MAX", "--http-line-bytes-max"}, "longest request line"),
    number<&http_limits::header_bytes_max, 256, 1'048'576>(http_limit,
                                                           {"SKALD_HTTP_HEADER_BYTES_MAX", "--http-header-bytes-max"},
                                                           "largest head of a request, with its first line"),
    number<&http_limits::header_count_max, 1, 1'000>(
        http_limit, {"SKALD_HTTP_HEADER_COUNT_MAX", "--http-header-count-max"}, "most headers of a request"),
    number<&http_limits::body_bytes_max, 0, 67'108'864>(
        http_limit, {"SKALD_HTTP_BODY_BYTES_MAX", "--http-body-bytes-max"}, "largest body of a request"),
    number<&http_limits::bodies_bytes_max, 1, 1'099'511'627'776>(
        http_limit, {"SKALD_HTTP_BODIES_BYTES_MAX", "--http-bodies-bytes-max"},
        "of all bodies being read, waiting or being served"),
    milliseconds<&http_limits::header_time>(http_limit, {"SKALD_HTTP_HEADER_MS", "--http-header-ms"},
                                            "how long a head may take, from its first byte"),
    milliseconds<&http_limits::body_time>(http_limit, {"SKALD_HTTP_BODY_MS", "--http-body-ms"},
                                          "how long a body may take; its bytes extend it"),
    number<&http_limits::body_rate_min, 0, 1'000'000'000>(
        http_limit, {"SKALD_HTTP_BODY_RATE_MIN", "--http-body-rate-min"},
        "bytes of a body that extend it by a second; 0: it is never extended"),
    milliseconds<&http_limits::write_time>(http_limit, {"SKALD_HTTP_WRITE_MS", "--http-write-ms"},
                                           "how long a client may take to read a response"),
    milliseconds<&http_limits::idle_time>(http_limit, {"SKALD_HTTP_IDLE_MS", "--http-idle-ms"},
                                          "how long a connection may be without a request"),
    number<&http_limits::connections_max, 1, 1'000'000>(
        http_limit, {"SKALD_HTTP_CONNECTIONS_MAX", "--http-connections-max"}, "connections at a time"),
    number<&http_limits::peer_connections_max, 0, 1'000'000>(
        http_limit, {"SKALD_HTTP_PEER_CONNECTIONS_MAX", "--http-peer-connections-max"},
        "of those, from one address; 0: any number"),
    number<&http_limits::connection_requests_max, 1, 1'000'000'000>(
        http_limit, {"SKALD_HTTP_CONNECTION_REQUESTS_MAX", "--http-connection-requests-max"},
        "requests on one connection, which is then closed"),
    number<&http_limits::queue_max, 0, 100'000>(http_limit, {"SKALD_HTTP_QUEUE_MAX", "--http-queue-max"},
                                                "requests that wait for an HTTP lane"),
    number<&http_limits::waits_max, 0, 1'000'000>(http_limit, {"SKALD_HTTP_WAITS_MAX", "--http-waits-max"},
                                                  "clients that wait for a result at a time"),
    number<&http_limits::kept_bytes_max, 0, 1'073'741'824>(http_limit,
                                                           {"SKALD_HTTP_KEPT_BYTES_MAX", "--http-kept-bytes-max"},
                                                           "of responses cached in memory for retries; 0: no cache"),
    milliseconds<&http_limits::kept_time>(http_limit, {"SKALD_HTTP_KEPT_MS", "--http-kept-ms"},
                                          "how long one stays there"),
};

}  // namespace

std::span<setting const> settings()
{
    return table;
}

}  // namespace skald::worker_detail
