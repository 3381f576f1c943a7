// The exporter and a collector on a real port: what it gets, and what becomes of it while the collector is away.
#include <doctest/doctest.h>

#include "support/collector.hpp"
#include "support/event_log.hpp"
#include "tracing/exporter.hpp"
#include "tracing/http_post.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <stdexcept>
#include <string>

using namespace skald;
using namespace skald::test;
using namespace skald::tracing;
using testing::wait_until;
using namespace std::chrono_literals;

namespace {

void make_spans(tracer& t, int count)
{
    for (int n = 0; n < count; ++n) open_span{t, t.begin_trace(), "span-" + std::to_string(n), span_kind::internal};
}

exporter_options to(collector const& c)
{
    return {.endpoint = c.endpoint(), .service = "payments", .every = 10ms, .timeout = 60s, .batch_max = 10};
}

}  // namespace

TEST_CASE("an endpoint is a scheme, a host, a port and perhaps a path")
{
    auto const plain = parse_endpoint("http://127.0.0.1:4318");
    CHECK(plain.host == "127.0.0.1");
    CHECK(plain.port == "4318");
    CHECK(plain.path == "/v1/traces");
    CHECK(parse_endpoint("http://collector").port == "4318");
    CHECK(parse_endpoint("http://collector:80/otlp/").path == "/otlp/v1/traces");
    CHECK(parse_endpoint("http://[::1]:80").host == "::1");
    CHECK(parse_endpoint("http://[::1]").port == "4318");
    for (std::string const bad : {"", "collector:4318", "https://collector", "http://", "http://:4318", "http://a:b",
                                  "http://a:", "http://a:65536", "http://a:123456", "http://user:secret@a:4318",
                                  "http://a b:1", "http://a:1/x y", "http://a:1/?token=x", "http://a:1/%\r\nX: y"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(parse_endpoint(bad), std::invalid_argument);
    }
}

TEST_CASE("every finished span reaches the collector once, the last ones when the exporter ends")
{
    collector there;
    event_log log;
    tracer spans{{}};
    {
        exporter const sends{to(there), spans, log};
        make_spans(spans, 25);
    }
    CHECK(there.names().size() == 25);
    CHECK(spans.exported() == 25);
    CHECK(spans.dropped() == 0);
}

TEST_CASE("what the collector can't take now is sent again, and what it refuses is not")
{
    collector there;
    event_log log;
    tracer spans{{}};
    {
        there.answer_next({503, 429});
        exporter const sends{to(there), spans, log};
        make_spans(spans, 1);
        REQUIRE(there.has_got(1));
        CHECK(there.requests() == 3);
        there.answer_next({400});
        make_spans(spans, 1);
        REQUIRE(wait_until([&] { return there.requests() == 4; }));
        make_spans(spans, 1);
        REQUIRE(there.has_got(2));
    }
    CHECK(spans.exported() == 2);
    CHECK(spans.dropped() == 1);
    CHECK(log.has("traces.not_sent"));
    CHECK(log.has("traces.available"));
}

TEST_CASE("a collector that takes requests and answers none does not hold the end up")
{
    boost::asio::io_context io;
    boost::asio::ip::tcp::acceptor silent{io, {boost::asio::ip::make_address("127.0.0.1"), 0}};
    boost::asio::ip::tcp::socket taken{io};
    event_log log;
    tracer spans{{}};
    {
        exporter const sends{{.endpoint = "http://127.0.0.1:" + std::to_string(silent.local_endpoint().port()),
                              .service = "payments",
                              .every = 10ms,
                              .timeout = 24h},
                             spans,
                             log};
        make_spans(spans, 1);
        silent.accept(taken);
    }
    CHECK(spans.exported() == 0);
    CHECK(log.has("traces.not_sent"));
}

TEST_CASE("the header Host has an IPv6 address in brackets")
{
    CHECK(host_of(parse_endpoint("http://[::1]:80")) == "[::1]:80");
    CHECK(host_of(parse_endpoint("http://collector")) == "collector:4318");
}

TEST_CASE("without a collector nothing waits, and what finds no room is counted")
{
    event_log log;
    tracer spans{{.waiting_max = 32}};
    {
        exporter const sends{{.endpoint = "http://127.0.0.1:1", .service = "payments", .every = 10ms}, spans, log};
        REQUIRE(wait_until([&] {
            make_spans(spans, 50);
            return log.has("traces.dropped");
        }));
    }
    CHECK(log.has("traces.not_sent"));
}
