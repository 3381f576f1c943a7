#include "worker/settings.hpp"

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "http/listen_address.hpp"

#include <skald/errors.hpp>

#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include <fmt/format.h>

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

std::chrono::milliseconds milliseconds(std::string_view text, int least)
{
    return std::chrono::milliseconds{whole<int>(text, least, 3'600'000)};
}

std::string shown(bool flag)
{
    return flag ? "on" : "off";
}

template <auto limit, std::size_t least, std::size_t most>
void set_limit(config& c, std::string_view value)
{
    c.http.*limit = whole<std::size_t>(value, least, most);
}

template <auto limit>
std::string show_limit(config const& c)
{
    return std::to_string(c.http.*limit);
}

template <auto time>
void set_time(config& c, std::string_view value)
{
    c.http.*time = milliseconds(value, 1);
}

template <auto time>
std::string show_time(config const& c)
{
    return std::to_string((c.http.*time).count());
}

constexpr std::array table{
    setting{"DATABASE_URL", "", "the service's database (a URL or keywords; without it libpq's PG* variables count)",
            [](config& c, std::string_view v) { c.database_url = v; }, [](config const&) { return std::string{}; }},
    setting{"AMQP_URL", "", "the broker: amqp[s]://user:password@host:port[,host:port...]/vhost",
            [](config& c, std::string_view v) { c.amqp_url = v; },
            [](config const&) { return std::string{"localhost"}; }},
    setting{"SKALD_HTTP_LISTEN", "--listen", "HOST:PORT to serve HTTP on; port 0 picks a free one",
            [](config& c, std::string_view v) { c.http_listen = listen_address(v); },
            [](config const& c) { return c.http_listen; }},
    setting{"SKALD_HEALTH_LISTEN", "--health-listen",
            "HOST:PORT to serve /livez and /readyz on, whatever the other is busy with; off: not",
            [](config& c, std::string_view v) { c.health_listen = v == "off" ? std::string{v} : listen_address(v); },
            [](config const& c) { return c.health_listen; }},
    setting{"SKALD_LANES", "--lanes", "threads that run steps, each with a database connection",
            [](config& c, std::string_view v) { c.lanes = whole<std::size_t>(v, 1, 256); },
            [](config const& c) { return std::to_string(c.lanes); }},
    setting{"SKALD_HTTP_LANES", "--http-lanes", "threads that answer requests, each with a database connection",
            [](config& c, std::string_view v) { c.http_lanes = whole<std::size_t>(v, 1, 256); },
            [](config const& c) { return std::to_string(c.http_lanes); }},
    setting{"SKALD_HTTP_WAIT_SECONDS", "--http-wait-seconds",
            "how long a client may wait for a running request or a saga's end; 0: not at all",
            [](config& c, std::string_view v) { c.http_wait_max = std::chrono::seconds{whole<int>(v, 0, 600)}; },
            [](config const& c) { return std::to_string(c.http_wait_max.count()); }},
    setting{"SKALD_HTTP_LINE_BYTES_MAX", "--http-line-bytes-max", "longest request line",
            set_limit<&http_limits::request_line_bytes_max, 64, 65'536>,
            show_limit<&http_limits::request_line_bytes_max>},
    setting{"SKALD_HTTP_HEADER_BYTES_MAX", "--http-header-bytes-max", "largest head of a request, with its first line",
            set_limit<&http_limits::header_bytes_max, 256, 1'048'576>, show_limit<&http_limits::header_bytes_max>},
    setting{"SKALD_HTTP_HEADER_COUNT_MAX", "--http-header-count-max", "most headers of a request",
            set_limit<&http_limits::header_count_max, 1, 1'000>, show_limit<&http_limits::header_count_max>},
    setting{"SKALD_HTTP_BODY_BYTES_MAX", "--http-body-bytes-max", "largest body of a request",
            set_limit<&http_limits::body_bytes_max, 0, 67'108'864>, show_limit<&http_limits::body_bytes_max>},
    setting{"SKALD_HTTP_BODIES_BYTES_MAX", "--http-bodies-bytes-max",
            "of all bodies that are on their way, wait or are served",
            set_limit<&http_limits::bodies_bytes_max, 1, 1'099'511'627'776>,
            show_limit<&http_limits::bodies_bytes_max>},
    setting{"SKALD_HTTP_HEADER_MS", "--http-header-ms", "how long a head may take, from its first byte",
            set_time<&http_limits::header_time>, show_time<&http_limits::header_time>},
    setting{"SKALD_HTTP_BODY_MS", "--http-body-ms", "how long a body may take, beside what its bytes add",
            set_time<&http_limits::body_time>, show_time<&http_limits::body_time>},
    setting{"SKALD_HTTP_BODY_RATE_MIN", "--http-body-rate-min", "bytes of a body that add a second to that; 0: none do",
            set_limit<&http_limits::body_rate_min, 0, 1'000'000'000>, show_limit<&http_limits::body_rate_min>},
    setting{"SKALD_HTTP_WRITE_MS", "--http-write-ms", "how long a client may take to read an answer",
            set_time<&http_limits::write_time>, show_time<&http_limits::write_time>},
    setting{"SKALD_HTTP_IDLE_MS", "--http-idle-ms", "how long a connection may be without a request",
            set_time<&http_limits::idle_time>, show_time<&http_limits::idle_time>},
    setting{"SKALD_HTTP_CONNECTIONS_MAX", "--http-connections-max", "connections at a time",
            set_limit<&http_limits::connections_max, 1, 1'000'000>, show_limit<&http_limits::connections_max>},
    setting{"SKALD_HTTP_PEER_CONNECTIONS_MAX", "--http-peer-connections-max",
            "of those, from one address; 0: any number", set_limit<&http_limits::peer_connections_max, 0, 1'000'000>,
            show_limit<&http_limits::peer_connections_max>},
    setting{"SKALD_HTTP_CONNECTION_REQUESTS_MAX", "--http-connection-requests-max",
            "requests on one connection, which is then closed",
            set_limit<&http_limits::connection_requests_max, 1, 1'000'000'000>,
            show_limit<&http_limits::connection_requests_max>},
    setting{"SKALD_HTTP_QUEUE_MAX", "--http-queue-max", "requests that wait for an HTTP lane",
            set_limit<&http_limits::queue_max, 0, 100'000>, show_limit<&http_limits::queue_max>},
    setting{"SKALD_HTTP_WAITS_MAX", "--http-waits-max", "clients that wait for a better answer at a time",
            set_limit<&http_limits::waits_max, 0, 1'000'000>, show_limit<&http_limits::waits_max>},
    setting{"SKALD_HTTP_KEPT_BYTES_MAX", "--http-kept-bytes-max",
            "of answers in memory, to be replayed without a look at the database; 0: none",
            set_limit<&http_limits::kept_bytes_max, 0, 1'073'741'824>, show_limit<&http_limits::kept_bytes_max>},
    setting{"SKALD_HTTP_KEPT_MS", "--http-kept-ms", "how long one stays there", set_time<&http_limits::kept_time>,
            show_time<&http_limits::kept_time>},
    setting{"SKALD_HTTP_TLS_CERTIFICATE", "--http-tls-certificate",
            "a PEM file with the certificate and its chain: serve HTTPS only; read again when it was changed",
            [](config& c, std::string_view v) { c.http_tls_certificate = v; },
            [](config const& c) { return c.http_tls_certificate; }},
    setting{"SKALD_HTTP_TLS_KEY", "--http-tls-key", "a PEM file with the certificate's key, not encrypted",
            [](config& c, std::string_view v) { c.http_tls_key = v; }, [](config const& c) { return c.http_tls_key; }},
    setting{"SKALD_BATCH_MAX", "--batch-max", "deliveries that a lane may run in one transaction; 1: each has its own",
            [](config& c, std::string_view v) { c.batch_max = whole<std::size_t>(v, 1, 64); },
            [](config const& c) { return std::to_string(c.batch_max); }},
    setting{"SKALD_PREFETCH", "--prefetch", "deliveries taken from the broker and not yet acked",
            [](config& c, std::string_view v) { c.prefetch = whole<std::uint16_t>(v, 1, 10'000); },
            [](config const& c) { return std::to_string(c.prefetch); }},
    setting{"SKALD_SIGNATURES", "--signatures",
            "sign: what is sent; require: and park what comes and is not signed, or wrongly",
            [](config& c, std::string_view v) {
                if (v != "off" && v != "sign" && v != "require") throw std::invalid_argument{"off, sign or require"};
                c.signatures = v;
            },
            [](config const& c) { return c.signatures; }},
    setting{"SKALD_SIGNING_KEYS", "--signing-keys",
            "FILE or FILE,FILE with a key each: the first signs, both are taken; read at the start",
            [](config& c, std::string_view v) { c.signing_keys = v; }, [](config const& c) { return c.signing_keys; }},
    setting{"SKALD_DECLARE", "--declare",
            "on: make the broker's exchanges and queues at each connect; off: `skald declare` has",
            [](config& c, std::string_view v) { c.declare = on_or_off(v); },
            [](config const& c) { return shown(c.declare); }},
    setting{"SKALD_RELAY", "--relay", "on: move the outbox to the broker from here; off: `skald relay` does",
            [](config& c, std::string_view v) { c.relay = on_or_off(v); },
            [](config const& c) { return shown(c.relay); }},
    setting{"SKALD_RELAY_BATCH_MAX", "--relay-batch-max", "rows that the relay moves at a time",
            [](config& c, std::string_view v) { c.relay_batch_max = whole<std::size_t>(v, 1, 10'000); },
            [](config const& c) { return std::to_string(c.relay_batch_max); }},
    setting{"SKALD_RELAY_POLL_MS", "--relay-poll-ms", "how often the relay looks without being woken",
            [](config& c, std::string_view v) { c.relay_poll = milliseconds(v, 1); },
            [](config const& c) { return std::to_string(c.relay_poll.count()); }},
    setting{"SKALD_DISPATCH_GRACE_MS", "--dispatch-grace-ms",
            "how long a relay leaves a message alone that is sent from memory; 0: all go by the relay",
            [](config& c, std::string_view v) { c.dispatch_grace = milliseconds(v, 0); },
            [](config const& c) { return std::to_string(c.dispatch_grace.count()); }},
    setting{"SKALD_MIGRATE", "--migrate", "on: bring the database up to date at start; only: and end then",
            [](config& c, std::string_view v) {
                if (v != "on" && v != "off" && v != "only") throw std::invalid_argument{"on, off or only"};
                c.migrate_only = v == "only";
                c.migrate = v != "off";
            },
            [](config const& c) { return c.migrate_only ? "only" : shown(c.migrate); }},
    setting{"SKALD_LOCK_TIMEOUT_MS", "--lock-timeout-ms", "how long a statement waits for a lock",
            [](config& c, std::string_view v) { c.lock_timeout = milliseconds(v, 1); },
            [](config const& c) { return std::to_string(c.lock_timeout.count()); }},
    setting{"SKALD_STATEMENT_TIMEOUT_MS", "--statement-timeout-ms", "how long a statement may take",
            [](config& c, std::string_view v) { c.statement_timeout = milliseconds(v, 1); },
            [](config const& c) { return std::to_string(c.statement_timeout.count()); }},
    setting{"SKALD_COMMIT_TIMEOUT_MS", "--commit-timeout-ms",
            "beyond the statement timeout: when a silent database is cut off",
            [](config& c, std::string_view v) { c.commit_timeout = milliseconds(v, 1); },
            [](config const& c) { return std::to_string(c.commit_timeout.count()); }},
    setting{"SKALD_OUTBOX_MAX", "--outbox-max",
            "messages waiting, above which requests with a new key get 503; 0: never",
            [](config& c, std::string_view v) { c.outbox_max = whole<std::int64_t>(v, 0, 1'000'000'000); },
            [](config const& c) { return std::to_string(c.outbox_max); }},
    setting{"SKALD_PURGE", "--purge", "on: delete records of sagas that ended long ago, a few at a time",
            [](config& c, std::string_view v) { c.purge = on_or_off(v); },
            [](config const& c) { return shown(c.purge); }},
    setting{"SKALD_PURGE_SECONDS", "--purge-seconds", "how often the purge looks for some",
            [](config& c, std::string_view v) { c.purge_every = std::chrono::seconds{whole<int>(v, 1, 86'400)}; },
            [](config const& c) { return std::to_string(c.purge_every.count()); }},
    setting{"SKALD_RETENTION_DAYS", "--retention-days", "how long records stay after their saga's end; a day at least",
            [](config& c, std::string_view v) { c.retention_days = whole<int>(v, 1, 36'500); },
            [](config const& c) { return std::to_string(c.retention_days); }},
    setting{"SKALD_DRAIN_SECONDS", "--drain-seconds", "from SIGTERM to exit, at most",
            [](config& c, std::string_view v) { c.drain = std::chrono::seconds{whole<int>(v, 1, 3600)}; },
            [](config const& c) { return std::to_string(c.drain.count()); }},
    setting{"SKALD_LOG_LEVEL", "--log-level", "debug, info, warning or error",
            [](config& c, std::string_view v) { core::parse_severity(v), c.log_level = v; },
            [](config const& c) { return c.log_level; }},
};

void set(config& c, setting const& s, std::string_view value, std::string_view named)
try {
    s.set(c, value);
}
catch (std::invalid_argument const& right) {
    throw configuration_error{fmt::format("{}: '{}' is not {}", named, value, right.what())};
}

// An empty value is more likely an unset variable of a script than an intention; for a certificate it would silently
// mean plain HTTP.
void set_unless_empty(config& c, setting const& s, std::string_view value, std::string_view named)
{
    set(c, s, value, named);
    if (!value.empty()) return;
    auto const usual = s.show(config{});
    throw configuration_error{fmt::format("{}: empty; leave it out to have the default ({})", named,
                                          usual.empty() ? "none" : std::string_view{usual})};
}

std::string read_secret(std::string const& variable, std::string const& path)
{
    std::ifstream file{path};
    file.peek();  // opening a directory succeeds; reading it fails
    if (!file.is_open() || file.bad()) throw configuration_error{variable + ": can't read " + path};
    std::ostringstream read;
    read << file.rdbuf();
    std::string text = read.str();
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.empty()) throw configuration_error{fmt::format("{}: the file {} is empty", variable, path)};
    return text;
}

setting const* find_variable(std::string_view name)
{
    for (auto const& s : table)
        if (s.variable == name) return &s;
    return nullptr;
}

setting const* find_flag(std::string_view name)
{
    for (auto const& s : table)
        if (!s.flag.empty() && s.flag == name) return &s;
    return nullptr;
}

constexpr std::string_view file_suffix = "_FILE";

// The failpoints read these settings themselves, in builds that have failpoints.
void check_failpoint_setting(std::string const& name, std::string const& value)
{
    if (auto const why = core::refuse_failpoint_setting(name, value); !why.empty())
        throw configuration_error{name + ": " + why};
}

// DATABASE_URL, or DATABASE_URL_FILE naming a file that contains it, so that a secret need not be in the environment.
void apply_variable(config& c, std::string const& name, std::string const& value)
{
    if (auto const* s = find_variable(name)) return (s->flag.empty() ? set : set_unless_empty)(c, *s, value, name);
    if (name.ends_with(file_suffix))
        if (auto const* s = find_variable(std::string_view{name}.substr(0, name.size() - file_suffix.size())))
            return set(c, *s, read_secret(name, value), name);
    if (core::is_failpoint_setting(name)) return check_failpoint_setting(name, value);
    if (name.starts_with("SKALD_"))
        throw configuration_error{name + " is no setting of Skald's; --help lists them all"};
}

void apply_arguments(config& c, std::vector<std::string> const& arguments)
{
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        auto const& argument = arguments[i];
        auto const equals = argument.find('=');
        auto const name = argument.substr(0, equals);
        auto const* s = find_flag(name);
        if (s == nullptr) throw configuration_error{"unknown argument " + argument + "; --help lists them all"};
        if (equals != std::string::npos) set_unless_empty(c, *s, argument.substr(equals + 1), name);
        else if (i + 1 < arguments.size()) set_unless_empty(c, *s, arguments[++i], name);
        else throw configuration_error{name + " needs a value"};
    }
}

}  // namespace

std::span<setting const> settings()
{
    return table;
}

environment read_environment()
{
    environment variables;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        std::string_view const text{*entry};
        auto const equals = text.find('=');
        if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
}

void check(config const& c)
{
    config copy;
    for (auto const& s : table)
        if (auto const value = s.show(c); !s.flag.empty() && !(value.empty() && s.flag == "--listen"))
            set(copy, s, value, s.variable);
}

config from(environment const& variables, std::vector<std::string> const& arguments)
{
    config c;
    for (auto const& [name, value] : variables) apply_variable(c, name, value);
    apply_arguments(c, arguments);
    c.check();
    return c;
}

}  // namespace skald::worker_detail
