// Settings from the environment and the command line: the same thing said twice means the same, and what is wrong is
// named.
#include <doctest/doctest.h>

#include "core/failpoint.hpp"
#include "support/complaint.hpp"
#include "support/temporary_file.hpp"
#include "worker/settings.hpp"
#include <skald/errors.hpp>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace skald;
using test::contains;
using test::temporary_file;
using worker_detail::environment;
using worker_detail::settings;
using namespace std::chrono_literals;

namespace {

config read(environment const& variables, std::vector<std::string> const& arguments = {})
{
    return worker_detail::from(variables, arguments);
}

/// The complaint; empty where there is none.
std::string complaint(environment const& variables, std::vector<std::string> const& arguments = {})
{
    return test::complaint_about([&] { read(variables, arguments); });
}

/// A value that differs from the default, for each setting.
std::map<std::string, std::string> const other_values{
    {"DATABASE_URL", "postgresql://db/shop"},
    {"AMQP_URL", "amqp://broker"},
    {"SKALD_HTTP_LISTEN", "127.0.0.1:0"},
    {"SKALD_HEALTH_LISTEN", "off"},
    {"SKALD_LANES", "7"},
    {"SKALD_CALLS", "5"},
    {"SKALD_HTTP_LANES", "9"},
    {"SKALD_HTTP_WAIT_SECONDS", "11"},
    {"SKALD_HTTP_LINE_BYTES_MAX", "1001"},
    {"SKALD_HTTP_HEADER_BYTES_MAX", "1002"},
    {"SKALD_HTTP_HEADER_COUNT_MAX", "103"},
    {"SKALD_HTTP_BODY_BYTES_MAX", "1004"},
    {"SKALD_HTTP_BODIES_BYTES_MAX", "262145"},
    {"SKALD_HTTP_HEADER_MS", "1005"},
    {"SKALD_HTTP_BODY_MS", "1006"},
    {"SKALD_HTTP_BODY_RATE_MIN", "1007"},
    {"SKALD_HTTP_WRITE_MS", "1008"},
    {"SKALD_HTTP_IDLE_MS", "1009"},
    {"SKALD_HTTP_CONNECTIONS_MAX", "1010"},
    {"SKALD_HTTP_PEER_CONNECTIONS_MAX", "1011"},
    {"SKALD_HTTP_CONNECTION_REQUESTS_MAX", "1012"},
    {"SKALD_HTTP_QUEUE_MAX", "1013"},
    {"SKALD_HTTP_WAITS_MAX", "1014"},
    {"SKALD_HTTP_KEPT_BYTES_MAX", "1015"},
    {"SKALD_HTTP_KEPT_MS", "1016"},
    {"SKALD_HTTP_TLS_CERTIFICATE", "chain.pem"},
    {"SKALD_HTTP_TLS_KEY", "key.pem"},
    {"SKALD_BATCH_MAX", "21"},
    {"SKALD_PREFETCH", "77"},
    {"SKALD_SIGNATURES", "sign"},
    {"SKALD_SIGNING_KEYS", "new.key,old.key"},
    {"SKALD_BODY_INLINE_MAX", "1024"},
    {"SKALD_BODY_MAX", "1048577"},
    {"SKALD_BODY_STORE", "directory:/srv/bodies"},
    {"AWS_ACCESS_KEY_ID", "id"},
    {"AWS_SECRET_ACCESS_KEY", "secret"},
    {"AWS_SESSION_TOKEN", "token"},
    {"AWS_REGION", "eu-central-1"},
    {"SKALD_TRANSPORT", "postgres"},
    {"SKALD_PEERS_FILE", "/etc/shop/peers"},
    {"SKALD_KAFKA_BROKERS", "kafka-1:9092"},
    {"SKALD_KAFKA_PROPERTIES", "/etc/shop/kafka"},
    {"SKALD_KAFKA_PARTITIONS", "24"},
    {"SKALD_KAFKA_REPLICAS", "3"},
    {"SKALD_KAFKA_MIN_INSYNC", "2"},
    {"SKALD_GUARD", "accelerator"},
    {"SKALD_REDIS_URL", "redis://cache"},
    {"SKALD_REDIS_MS", "7"},
    {"SKALD_REDIS_HOLD_MS", "1017"},
    {"SKALD_REDIS_EPOCH_MS", "501"},
    {"SKALD_DECLARE", "off"},
    {"SKALD_RELAY", "off"},
    {"SKALD_RELAY_BATCH_MAX", "11"},
    {"SKALD_RELAY_POLL_MS", "13"},
    {"SKALD_DISPATCH_GRACE_MS", "17"},
    {"SKALD_MIGRATE", "off"},
    {"SKALD_LOCK_TIMEOUT_MS", "1500"},
    {"SKALD_STATEMENT_TIMEOUT_MS", "2500"},
    {"SKALD_DRAIN_SECONDS", "3"},
    {"SKALD_LOG_LEVEL", "debug"},
    {"SKALD_LOG_FORMAT", "json"},
    {"SKALD_ACCESS_LOG_LEVEL", "warning"},
    {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"},
    {"OTEL_TRACES_SAMPLER_ARG", "0.25"},
    {"SKALD_COMMIT_TIMEOUT_MS", "3500"},
    {"SKALD_OUTBOX_MAX", "17"},
    {"SKALD_PURGE", "off"},
    {"SKALD_DEPLOY_WAIT_SECONDS", "18"},
    {"SKALD_START_CHECK", "refuse"},
    {"SKALD_RECORD_DELIVERIES", "/tmp/recorded.jsonl"},
    {"SKALD_PURGE_SECONDS", "19"},
    {"SKALD_RETENTION_DAYS", "23"},
};

bool same(config const& a, config const& b)
{
    return a.database_url == b.database_url && a.amqp_url == b.amqp_url && a.http_listen == b.http_listen &&
           a.health_listen == b.health_listen && a.lanes == b.lanes && a.calls == b.calls &&
           a.http_lanes == b.http_lanes && a.http_wait_max == b.http_wait_max && a.http == b.http &&
           a.http_tls_certificate == b.http_tls_certificate && a.http_tls_key == b.http_tls_key &&
           a.batch_max == b.batch_max && a.prefetch == b.prefetch && a.relay == b.relay && a.migrate == b.migrate &&
           a.transport == b.transport && a.peers_file == b.peers_file && a.kafka_brokers == b.kafka_brokers &&
           a.kafka_properties == b.kafka_properties && a.kafka_partitions == b.kafka_partitions &&
           a.kafka_replicas == b.kafka_replicas && a.kafka_min_insync == b.kafka_min_insync && a.guard == b.guard &&
           a.redis_url == b.redis_url && a.redis_time == b.redis_time && a.redis_hold == b.redis_hold &&
           a.redis_epoch == b.redis_epoch && a.relay_batch_max == b.relay_batch_max && a.relay_poll == b.relay_poll &&
           a.dispatch_grace == b.dispatch_grace && a.lock_timeout == b.lock_timeout &&
           a.statement_timeout == b.statement_timeout && a.drain == b.drain && a.log_level == b.log_level &&
           a.commit_timeout == b.commit_timeout && a.outbox_max == b.outbox_max && a.declare == b.declare &&
           a.signatures == b.signatures && a.signing_keys == b.signing_keys && a.purge == b.purge &&
           a.deploy_wait == b.deploy_wait && a.start_check == b.start_check &&
           a.record_deliveries == b.record_deliveries && a.purge_every == b.purge_every &&
           a.retention_days == b.retention_days && a.log_format == b.log_format &&
           a.access_log_level == b.access_log_level && a.otlp_endpoint == b.otlp_endpoint &&
           a.trace_ratio == b.trace_ratio && a.body_inline_max == b.body_inline_max && a.body_max == b.body_max &&
           a.body_store == b.body_store && a.s3_key == b.s3_key && a.s3_secret == b.s3_secret &&
           a.s3_token == b.s3_token && a.s3_region == b.s3_region;
}

}  // namespace

TEST_CASE("with nothing said, every default holds")
{
    config expected;
    CHECK(same(read({}), expected));
}

TEST_CASE("every setting has a name of its own, and is looked at below")
{
    std::set<std::string_view> variables, flags;
    for (auto const& s : settings()) {
        CAPTURE(s.variable);
        CHECK(variables.insert(s.variable).second);
        if (!s.flag.empty()) CHECK(flags.insert(s.flag).second);
        CHECK(other_values.contains(std::string{s.variable}));
    }
    CHECK(variables.size() == other_values.size());
}

TEST_CASE("every variable changes its setting and no other")
{
    for (auto const& one : other_values) {
        CAPTURE(one.first);
        CHECK_FALSE(same(read({one}), read({})));
        for (auto const& s : settings())
            if (s.variable != one.first) CHECK(s.show(read({one})) == s.show(read({})));
    }
}

TEST_CASE("variables reach the field of their name")
{
    environment const all{other_values.begin(), other_values.end()};
    auto const c = read(all);
    CHECK(c.database_url == "postgresql://db/shop");
    CHECK(c.amqp_url == "amqp://broker");
    CHECK(c.http_listen == "127.0.0.1:0");
    CHECK(c.health_listen == "off");
    CHECK(c.lanes == 7);
    CHECK(c.calls == 5);
    CHECK(c.http_lanes == 9);
    CHECK(c.http_wait_max == std::chrono::seconds{11});
    CHECK(c.http == http_limits{.request_line_bytes_max = 1001,
                                .header_bytes_max = 1002,
                                .header_count_max = 103,
                                .body_bytes_max = 1004,
                                .bodies_bytes_max = 262145,
                                .header_time = 1005ms,
                                .body_time = 1006ms,
                                .body_rate_min = 1007,
                                .write_time = 1008ms,
                                .idle_time = 1009ms,
                                .connections_max = 1010,
                                .peer_connections_max = 1011,
                                .connection_requests_max = 1012,
                                .queue_max = 1013,
                                .waits_max = 1014,
                                .kept_bytes_max = 1015,
                                .kept_time = 1016ms});
    CHECK((c.http_tls_certificate + ' ' + c.http_tls_key) == "chain.pem key.pem");
    CHECK((c.signatures + ' ' + c.signing_keys) == "sign new.key,old.key");
    CHECK(c.batch_max == 21);
    CHECK(c.prefetch == 77);
    CHECK_FALSE((c.relay || c.declare));
    CHECK(c.relay_batch_max == 11);
    CHECK(c.relay_poll == 13ms);
    CHECK_FALSE(c.migrate);
    CHECK(c.lock_timeout == 1500ms);
    CHECK(c.statement_timeout == 2500ms);
    CHECK(c.drain == 3s);
    CHECK(c.log_level == "debug");
    CHECK(c.commit_timeout == 3500ms);
    CHECK(c.outbox_max == 17);
    CHECK_FALSE(c.purge);
    CHECK(c.purge_every == 19s);
    CHECK(c.retention_days == 23);
    CHECK((c.body_inline_max == 1024 && c.body_max == 1048577 && c.body_store == "directory:/srv/bodies"));
}

TEST_CASE("a retention of less than a day is refused")
{
    CHECK(contains(complaint({{"SKALD_RETENTION_DAYS", "0"}}), "'0' is not a whole number from 1 to "));
    CHECK(contains(complaint({}, {"--retention-days", "0.5"}), "--retention-days"));
}

TEST_CASE("a flag means what its variable means, in both of its forms")
{
    for (auto const& s : settings()) {
        if (s.flag.empty()) continue;
        CAPTURE(s.flag);
        auto const& value = other_values.at(std::string{s.variable});
        auto const by_variable = read({{std::string{s.variable}, value}});
        CHECK(same(read({}, {std::string{s.flag}, value}), by_variable));
        CHECK(same(read({}, {std::string{s.flag} + "=" + value}), by_variable));
    }
}

TEST_CASE("secrets have no flag, for a command line is everybody's to read")
{
    CHECK(contains(complaint({}, {"--database-url", "postgresql://u:p@db/shop"}), "unknown argument --database-url"));
    CHECK(contains(complaint({}, {"--amqp-url=amqp://u:p@broker"}), "unknown argument"));
}

TEST_CASE("the command line wins over the environment, and the last of two over the first")
{
    CHECK(read({{"SKALD_LANES", "7"}}, {"--lanes", "8"}).lanes == 8);
    CHECK(read({}, {"--lanes=8", "--lanes", "9"}).lanes == 9);
}

TEST_CASE("an unknown SKALD_ variable is an error that names it")
{
    for (std::string const name : {"SKALD_LANE", "SKALD_", "SKALD_DATABASE_URL", "SKALD_LANES_", "SKALD_lanes",
                                   "SKALD_LANE_FILE", "SKALD_LANES_FILE_FILE"}) {
        CAPTURE(name);
        CHECK(contains(complaint({{name, "1"}}), name + " is no setting"));
    }
}

TEST_CASE("what Kubernetes makes of a Service, and what an audit tells its command, is passed over")
{
    environment const others{
        {"SKALD_SERVICE_HOST", "10.0.0.1"},
        {"SKALD_PORT", "tcp://10.0.0.1:8090"},
        {"SKALD_CONSOLE_SERVICE_HOST", "10.0.0.1"},
        {"SKALD_CONSOLE_SERVICE_PORT", "8090"},
        {"SKALD_CONSOLE_SERVICE_PORT_HTTP_ALT", "8090"},
        {"SKALD_CONSOLE_PORT", "tcp://10.0.0.1:8090"},
        {"SKALD_CONSOLE_PORT_8090_TCP", "tcp://10.0.0.1:8090"},
        {"SKALD_CONSOLE_PORT_8090_TCP_PROTO", "tcp"},
        {"SKALD_CONSOLE_PORT_8090_TCP_PORT", "8090"},
        {"SKALD_CONSOLE_PORT_8090_TCP_ADDR", "10.0.0.1"},
        {"SKALD_CONSOLE_PORT_53_UDP", "udp://10.0.0.1:53"},
        {"SKALD_AUDIT_SINCE", "2026-11-01T00:00:00.000000Z"},
        {"SKALD_AUDIT_UNTIL", "2026-11-02T00:00:00.000000Z"},
    };
    CHECK(complaint(others) == "");
    for (std::string const name :
         {"SKALD_HTTP_PORT", "SKALD_CONSOLE_PORT_TCP", "SKALD_CONSOLE_PORT_80_TCP_HOST", "SKALD_CONSOLE_PORT_80",
          "SKALD_LANES_80_TCP", "SKALD_SERVICE_PORT_", "SKALD_console_SERVICE_HOST", "SKALD_AUDIT_SINC"})
        CHECK(contains(complaint({{name, "8080"}}), name + " is no setting"));
}

TEST_CASE("no setting is named as Kubernetes names what it makes of a Service")
{
    for (auto const& s : settings())
        for (std::string const end : {"", "_FILE"})
            CHECK_FALSE(worker_detail::is_no_setting(std::string{s.variable} + end, "tcp://10.0.0.1:8090"));
}

TEST_CASE("failpoints are refused by a build that has none, and what is wrong with them is told by one that has")
{
    for (std::string const name : {"SKALD_FAILPOINTS", "SKALD_FAILPOINT_TRACE"}) {
        CAPTURE(name);
        CHECK(contains(complaint({{name, "odd"}}), name + ": works only in a build for tests") ==
              !core::has_failpoints);
    }
    if (!core::has_failpoints) return;
    CHECK(complaint({{"SKALD_FAILPOINTS", "step.committed=kill@2;entry.claimed=sleep:10"}}) == "");
    CHECK(contains(complaint({{"SKALD_FAILPOINTS", "step.comitted=kill"}}), "names no failpoint"));
    CHECK(contains(complaint({{"SKALD_FAILPOINTS", "step.committed=kil"}}), "the actions are"));
    CHECK(contains(complaint({{"SKALD_FAILPOINTS", "step.committed=kill@0"}}), "which hit"));
}

TEST_CASE("variables that are not ours are nobody's business")
{
    CHECK(complaint({{"PATH", "/bin"}, {"PGHOST", "db"}, {"skald_lanes", "x"}, {"MY_SKALD_LANES", "x"}, {"", "x"}}) ==
          "");
}

TEST_CASE("an unknown argument is an error that names it")
{
    for (std::string const argument :
         {"--lane", "-l", "lanes", "--lanes8", "--Lanes=8", "=", "", "--", "--listen-on=x", "8"}) {
        CAPTURE(argument);
        CHECK(contains(complaint({}, {argument, "8"}), "unknown argument " + argument));
    }
}

TEST_CASE("a flag without its value is an error that names it")
{
    CHECK(contains(complaint({}, {"--lanes"}), "--lanes needs a value"));
    CHECK(contains(complaint({}, {"--lanes", "--relay", "off"}), "--lanes: '--relay' is not"));
}

TEST_CASE("a value is what follows the first equals sign, whatever is in it")
{
    CHECK(read({{"DATABASE_URL", "host=a"}}, {"--http-tls-key=a=b", "--http-tls-certificate=c"}).http_tls_key == "a=b");
}

TEST_CASE("a value out of range is an error that names the setting, the value and the range")
{
    struct
    {
        std::string variable, value, right;
    } const table[]{
        {"SKALD_LANES", "0", "from 1 to 256"},
        {"SKALD_LANES", "257", "from 1 to 256"},
        {"SKALD_LANES", "-1", "from 1 to 256"},
        {"SKALD_LANES", "", "from 1 to 256"},
        {"SKALD_LANES", "4 ", "from 1 to 256"},
        {"SKALD_LANES", " 4", "from 1 to 256"},
        {"SKALD_LANES", "+4", "from 1 to 256"},
        {"SKALD_LANES", "4.0", "from 1 to 256"},
        {"SKALD_LANES", "0x4", "from 1 to 256"},
        {"SKALD_LANES", "four", "from 1 to 256"},
        {"SKALD_LANES", "18446744073709551617", "from 1 to 256"},
        {"SKALD_HTTP_LANES", "0", "from 1 to 256"},
        {"SKALD_HTTP_WAIT_SECONDS", "601", "from 0 to 600"},
        {"SKALD_PREFETCH", "0", "from 1 to 10000"},
        {"SKALD_PREFETCH", "10001", "from 1 to 10000"},
        {"SKALD_PREFETCH", "65600", "from 1 to 10000"},
        {"SKALD_RELAY", "true", "on or off"},
        {"SKALD_RELAY", "ON", "on or off"},
        {"SKALD_RELAY", "", "on or off"},
        {"SKALD_BODY_STORE", "directory:here", "database, directory:/PATH, or s3:https://host:port/bucket/prefix"},
        {"SKALD_GUARD", "redis", "one of postgres, cache_aside, lock, accelerator, redis_only"},
        {"SKALD_TRANSPORT", "nats", "rabbitmq, kafka or postgres"},
        {"SKALD_MIGRATE", "1", "on, off or only"},
        {"SKALD_RELAY_BATCH_MAX", "0", "from 1 to 10000"},
        {"SKALD_RELAY_POLL_MS", "0", "from 1 to 3600000"},
        {"SKALD_LOCK_TIMEOUT_MS", "0", "from 1 to 3600000"},
        {"SKALD_STATEMENT_TIMEOUT_MS", "3600001", "from 1 to 3600000"},
        {"SKALD_DRAIN_SECONDS", "0", "from 1 to 3600"},
        {"SKALD_DRAIN_SECONDS", "3601", "from 1 to 3600"},
        {"SKALD_LOG_LEVEL", "loud", "debug, info, warning or error"},
    };
    for (auto const& bad : table) {
        CAPTURE(bad.variable);
        CAPTURE(bad.value);
        auto const said = complaint({{bad.variable, bad.value}});
        CHECK(contains(said, bad.variable + ": '" + bad.value + "' is not "));
        CHECK(contains(said, bad.right));
    }
    CHECK(contains(complaint({}, {"--lanes=257"}), "--lanes: '257' is not a whole number from 1 to 256"));
}

TEST_CASE("settings that do not go together are refused")
{
    CHECK(contains(complaint({{"SKALD_LANES", "65"}, {"SKALD_PREFETCH", "64"}}),
                   "SKALD_PREFETCH (64) must be at least SKALD_LANES (65)"));
    CHECK(complaint({{"SKALD_LANES", "65"}, {"SKALD_PREFETCH", "65"}}) == "");
}

TEST_CASE(
    "a file that can't be read or is empty, or a folder in its place, is an error that names the variable and the file")
{
    for (std::string const path : {"/nowhere/at/all", "", "/"})
        CHECK(contains(complaint({{"DATABASE_URL_FILE", path}}), "DATABASE_URL_FILE: can't read " + path));
    temporary_file const empty{"\r\n"};
    CHECK(contains(complaint({{"DATABASE_URL_FILE", empty.path()}}), "the file " + empty.path() + " is empty"));
}

TEST_CASE("a variable of this process is in its environment")
{
    REQUIRE(::setenv("SKALD_TEST_OF_SETTINGS", "a=b", 1) == 0);
    auto const variables = worker_detail::read_environment();
    ::unsetenv("SKALD_TEST_OF_SETTINGS");
    CHECK(variables.at("SKALD_TEST_OF_SETTINGS") == "a=b");
}
