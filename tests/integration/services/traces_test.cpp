// A customer's trace through three services: what the collector gets is one tree, in whatever order it arrives.
#include "support/collector.hpp"
#include "support/shop.hpp"

#include <map>
#include <set>

using namespace skald::test;

namespace {

std::string const trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
std::string const callers_span = "00f067aa0ba902b7";

std::string traceparent(std::string const& flags)
{
    return "traceparent: 00-" + trace_id + '-' + callers_span + '-' + flags + "\r\n";
}

struct traced_shop : shop
{
    explicit traced_shop(collector const& there, std::string const& ratio = "1")
    {
        for (auto* service : services()) {
            service->set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", there.endpoint());
            service->set_variable("OTEL_TRACES_SAMPLER_ARG", ratio);
        }
        open();
    }
};

std::multiset<std::string> names_of(std::vector<json> const& spans)
{
    std::multiset<std::string> names;
    for (auto const& span : spans)
        names.insert(span["service"].get<std::string>() + ": " + span["name"].get<std::string>());
    return names;
}

std::string attribute(json const& span, std::string const& name)
{
    for (auto const& one : span["attributes"])
        if (one["key"] == name) return one["value"].begin().value();
    return {};
}

/// How many of them have a parent that is neither another of them nor the caller.
long orphans(std::vector<json> const& spans)
{
    std::set<std::string> known{callers_span};
    for (auto const& span : spans) known.insert(span["spanId"].get<std::string>());
    return std::ranges::count_if(spans, [&](auto const& span) { return !known.contains(span["parentSpanId"]); });
}

}  // namespace

TEST_CASE("an order is one trace: the request, each step with its claim and commit, each message")
{
    collector there;
    traced_shop s{there};
    REQUIRE(s.order("k1", {}, traceparent("01") + "tracestate: shop=1\r\n").status == 202);
    REQUIRE(s.ends("k1", "completed"));
    s.close_in_order();  // each sends its last spans

    auto const spans = there.spans();
    for (auto const& span : spans) {
        CHECK(span["traceId"] == trace_id);
        CHECK(span["traceState"] == "shop=1");
        CHECK_FALSE(span.contains("status"));
    }
    CHECK(orphans(spans) == 0);
    auto const names = names_of(spans);
    CHECK(names.count("orders: POST /orders") == 1);
    for (std::string const step :
         {"payments: process charge-payment", "shipping: process arrange-shipping", "orders: process confirm-order"}) {
        CAPTURE(step);
        CHECK(names.count(step) == 1);
    }
    CHECK(names.count("orders: send payments") == 1);
    CHECK(names.count("payments: send shipping") == 1);
    CHECK(names.count("shipping: send orders") >= 1);  // the next step's message, and a report
    CHECK(names.count("payments: claim") == 1);
    CHECK(names.count("payments: execute") == 1);
    CHECK(names.count("payments: commit") == 1);
    for (auto const& span : spans) {
        if (span["name"] != "process charge-payment") continue;
        CHECK(span["kind"] == 5);
        CHECK(attribute(span, "messaging.system") == "rabbitmq");
        CHECK(attribute(span, "messaging.message.id") == "k1:charge-payment");
        CHECK(attribute(span, "skald.result") == "step.completed");
    }
}

TEST_CASE("a saga that compensates is in its trace with the reason, and each step that is undone")
{
    collector there;
    traced_shop s{there};
    REQUIRE(s.order("k1", {.sku = "rare"}, traceparent("01")).status == 202);
    REQUIRE(s.ends("k1", "compensated"));
    s.close_in_order();

    auto const spans = there.spans();
    CHECK(orphans(spans) == 0);
    auto const names = names_of(spans);
    CHECK(names.count("payments: process charge-payment.compensate") == 1);
    CHECK(names.count("payments: compensate") == 1);
    CHECK(names.count("orders: process create-order.compensate") == 1);
    auto const rejected = std::ranges::count_if(spans, [](auto const& span) {
        return span["name"] == "process arrange-shipping" && attribute(span, "skald.result") == "step.rejected" &&
               !attribute(span, "skald.reason").empty();
    });
    CHECK(rejected == 1);
}

TEST_CASE("what the caller does not sample is traced by nobody, and the services' logs still say to what it belongs")
{
    collector there;
    traced_shop s{there};
    REQUIRE(s.order("k1", {.customer = "poor"}, traceparent("00")).status == 202);
    REQUIRE(s.ends("k1", "compensated"));
    s.close_in_order();
    CHECK(there.spans().empty());
    CHECK(s.payments.has_logged("trace_id=" + trace_id));
}

TEST_CASE("without a caller's trace the ratio decides, once for the whole saga")
{
    collector there;
    {
        traced_shop none{there, "0"};
        REQUIRE(none.order("k1").status == 202);
        REQUIRE(none.ends("k1", "completed"));
        none.close_in_order();
    }
    CHECK(there.spans().empty());
    traced_shop every{there};
    REQUIRE(every.order("k2").status == 202);
    REQUIRE(every.ends("k2", "completed"));
    every.close_in_order();
    std::set<std::string> traces;
    for (auto const& span : there.spans()) traces.insert(span["traceId"].get<std::string>());
    CHECK(traces.size() == 1);
}

TEST_CASE("steps that share a transaction are each in their own trace, and its span links to all of them")
{
    collector there;
    traced_shop s{there};
    s.payments.kill(SIGSTOP);  // so that its deliveries wait, and are taken together
    constexpr int count = 20;
    for (int n = 0; n < count; ++n) REQUIRE(s.order("k" + std::to_string(n)).status == 202);
    REQUIRE(s.outboxes_empty());
    s.payments.kill(SIGCONT);
    REQUIRE(s.all_end());
    s.close_in_order();

    std::map<std::string, std::string> trace_of;  // by span
    std::set<std::string> processed;
    std::size_t linked = 0, batches = 0;
    auto const spans = there.spans();
    for (auto const& span : spans) {
        trace_of[span["spanId"]] = span["traceId"];
        if (span["name"] == "process charge-payment") processed.insert(span["traceId"].get<std::string>());
    }
    for (auto const& span : spans) {
        if (span["name"] != "receive payments" || span["service"] != "payments") continue;
        ++batches;
        for (auto const& link : span["links"]) {
            CHECK(trace_of[link["spanId"]] == link["traceId"].get<std::string>());
            linked += processed.contains(link["traceId"].get<std::string>()) ? 1 : 0;
        }
    }
    CHECK(processed.size() == count);
    CHECK(batches >= 1);
    CHECK(linked > batches);
}

TEST_CASE("a log in JSON is an object for each line, with the key, the step and the trace")
{
    shop s;
    for (auto* service : s.services()) service->set_variable("SKALD_LOG_FORMAT", "json");
    for (auto* service : s.services()) service->start();
    auto const has_event = [](service_process& service, std::string const& event) {
        return service.has_logged(R"("event":")" + event + '"');
    };
    for (auto* service : s.services()) REQUIRE(wait_until([&] { return has_event(*service, "worker.started"); }));
    s.fill();
    std::istringstream first{s.orders.log()};
    std::string address;
    for (std::string line; std::getline(first, line);)
        if (auto const read = json::parse(line); read["event"] == "worker.started") address = read["http"];
    auto const port = static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
    auto const answer =
        raw_client{port}.ask(shop::post("k1", order_request{.customer = "poor"}.body(), traceparent("01")));
    REQUIRE(answer.status == 202);
    CHECK(raw_client{port}.ask(shop::post("k1", order_request{.quantity = 2}.body())).status == 422);
    REQUIRE(wait_until([&] { return has_event(s.payments, "step.rejected"); }));
    s.close_in_order();

    int rejected = 0, requests = 0;
    for (auto* service : s.services()) {
        std::istringstream lines{service->log()};
        for (std::string line; std::getline(lines, line);) {
            auto const read = json::parse(line);
            CAPTURE(line);
            for (auto const* const name : {"time", "level", "service", "event"}) CHECK(read[name].is_string());
            if (read["event"] == "http.request") {
                ++requests;
                CHECK(read["route"] == "POST /orders");
                CHECK(read["status"] == 422);
                CHECK(read["duration_us"].is_number());
            }
            if (read["event"] != "step.rejected") continue;
            ++rejected;
            CHECK(read["key"] == "k1:charge-payment");
            CHECK(read["step"] == "charge-payment");
            CHECK(read["trace_id"] == trace_id);
            CHECK(read["span_id"].get<std::string>().size() == 16);
        }
    }
    CHECK(rejected == 1);
    CHECK(requests == 1);  // the one that is worth a line at info
}
