// The page of GET /metrics, as text.
#include "metrics/catalogue.hpp"
#include "metrics/write.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

using namespace skald;
using namespace std::chrono_literals;

namespace {

bool has_line(std::string const& text, std::string const& line)
{
    return ('\n' + text).find('\n' + line + '\n') != std::string::npos;
}

std::string page_of(metrics::database_figures::seen const& seen)
{
    metrics::exposition page{"payments", metrics::of::all};
    metrics::write(page, seen);
    return page.text();
}

}  // namespace

TEST_CASE("every sample has the service, and a step's its definition, name and direction")
{
    auto const m = std::make_unique<metrics::step_metrics>();
    m->forward.deliveries.add(3);
    m->compensation.ends[metrics::step_end::duplicate].add(2);
    metrics::exposition page{"payments", metrics::of::all};
    metrics::write(page, "place-order", "charge", *m);
    auto const text = page.text();
    CHECK(has_line(text, R"(skald_step_deliveries_total{service="payments",definition="place-order",step="charge",)"
                         R"(direction="forward"} 3)"));
    CHECK(has_line(text, R"(skald_step_results_total{service="payments",definition="place-order",step="charge",)"
                         R"(direction="compensation",result="duplicate"} 2)"));
}

TEST_CASE("what is in front of the guard is counted by its answers, those too that it never gave")
{
    metrics::front_metrics m;
    m.asked.at(1).add(3);
    metrics::exposition page{"orders", metrics::of::all};
    metrics::write(page, m);
    CHECK(has_line(page.text(), R"(skald_front_requests_total{service="orders",result="result"} 3)"));
    CHECK(has_line(page.text(), R"(skald_front_requests_total{service="orders",result="away"} 0)"));
}

TEST_CASE("large bodies are counted, and those that were missing or damaged apart")
{
    metrics::body_metrics m;
    m.kept_bytes.add(70'000);
    m.reads[metrics::body_read::damaged].add(2);
    metrics::exposition page{"orders", metrics::of::all};
    metrics::write(page, m);
    CHECK(has_line(page.text(), R"(skald_bodies_kept_bytes_total{service="orders"} 70000)"));
    CHECK(has_line(page.text(), R"(skald_bodies_read_total{service="orders",result="whole"} 0)"));
    CHECK(has_line(page.text(), R"(skald_bodies_read_total{service="orders",result="damaged"} 2)"));
}

TEST_CASE("a histogram is cumulative and ends with everything")
{
    metrics::publish_metrics m;
    m.confirm.observe(700us);
    m.confirm.observe(90s);
    metrics::exposition page{"payments", metrics::of::all};
    metrics::write_relay(page, m);
    auto const text = page.text();
    CHECK(has_line(text, R"(skald_relay_confirm_seconds_bucket{service="payments",le="0.0005"} 0)"));
    CHECK(has_line(text, R"(skald_relay_confirm_seconds_bucket{service="payments",le="0.001"} 1)"));
    CHECK(has_line(text, R"(skald_relay_confirm_seconds_bucket{service="payments",le="+Inf"} 2)"));
    CHECK(has_line(text, R"(skald_relay_confirm_seconds_count{service="payments"} 2)"));
}

TEST_CASE("figures that the database has not given yet are absent, and not zero; how long they are missing is said")
{
    auto const text = page_of({{}, 200s, {}, false});
    CHECK(text.find("\nskald_outbox_rows{") == std::string::npos);
    CHECK(has_line(text, R"(skald_database_figures_age_seconds{service="payments"} 200)"));
    CHECK(has_line(text, "# TYPE skald_outbox_rows gauge"));
    CHECK(has_line(text, R"(skald_database_connected{service="payments"} 0)"));
}

TEST_CASE("figures that are too old are absent, and their age is not")
{
    metrics::figures read;
    read.outbox_rows.push_back({"due", "", 7});
    CHECK(has_line(page_of({read, 5s, {}, true}), R"(skald_outbox_rows{service="payments",state="due"} 7)"));
    auto const text = page_of({read, 61s, {}, false});
    CHECK(text.find("\nskald_outbox_rows{") == std::string::npos);
    CHECK(has_line(text, R"(skald_database_figures_age_seconds{service="payments"} 61)"));
}

TEST_CASE("started steps show what they wait for, what is late, and calls that nobody can tell about")
{
    metrics::figures read;
    read.started.push_back({"call", "gateway", 7});
    read.started_overdue.push_back({"wait", "", 3});
    read.unknown_calls.push_back({"gateway", "", 2});
    read.unsettled.push_back({"charge", "compensation", 4});
    auto const text = page_of({read, 5s, {}, true});
    CHECK(has_line(text, R"(skald_started_steps{service="payments",kind="call",dependency="gateway"} 7)"));
    CHECK(has_line(text, R"(skald_started_overdue_seconds{service="payments",kind="wait",dependency=""} 3)"));
    CHECK(has_line(text, R"(skald_unknown_calls{service="payments",dependency="gateway"} 2)"));
    CHECK(has_line(text, R"(skald_unsettled_steps{service="payments",step="charge",direction="compensation"} 4)"));
}

TEST_CASE("of a dependency the page says whether its breaker is closed, and how its calls ended")
{
    auto const page_of_breaker = [](core::breaker_state state) {
        metrics::exposition page{"payments", metrics::of::all};
        metrics::write(page, "gateway",
                       core::breaker_status{.state = state,
                                            .why = "ill",
                                            .running = 2,
                                            .ok = 3,
                                            .failed = 4,
                                            .slow = 5,
                                            .nothing = 6,
                                            .opened = 7});
        return page.text();
    };
    auto const text = page_of_breaker(core::breaker_state::half_open);
    CHECK(has_line(text, R"(skald_dependency_open{service="payments",dependency="gateway"} 1)"));
    CHECK(has_line(text, R"(skald_dependency_calls_running{service="payments",dependency="gateway"} 2)"));
    CHECK(has_line(text, R"(skald_dependency_calls_total{service="payments",dependency="gateway",result="failed"} 4)"));
    CHECK(has_line(text, R"(skald_dependency_opened_total{service="payments",dependency="gateway"} 7)"));
    CHECK(has_line(page_of_breaker(core::breaker_state::closed),
                   R"(skald_dependency_open{service="payments",dependency="gateway"} 0)"));
    CHECK(has_line(page_of_breaker(core::breaker_state::open),
                   R"(skald_dependency_open{service="payments",dependency="gateway"} 1)"));
}

TEST_CASE("a call may take longer than any transaction, and its histogram tells minutes from hours")
{
    auto const m = std::make_unique<metrics::step_metrics>();
    m->compensation.call.observe(5min);
    metrics::exposition page{"payments", metrics::of::all};
    metrics::write_calls(page, "place-order", "charge", false, *m);
    auto const line = [](std::string const& le, int count) {
        return R"(skald_step_call_seconds_bucket{service="payments",definition="place-order",step="charge",)"
               R"(direction="compensation",le=")" +
               le + "\"} " + std::to_string(count);
    };
    CHECK(has_line(page.text(), line("60", 0)));
    CHECK(has_line(page.text(), line("600", 1)));
}

TEST_CASE("a route shows the statuses that it had, under its pattern")
{
    metrics::route_metrics m{"POST /orders"};
    m.responded(202);
    m.responded(202);
    m.responded(700);  // no status: counts nowhere
    metrics::exposition page{"orders", metrics::of::all};
    metrics::write(page, m);
    auto const text = page.text();
    CHECK(has_line(text, R"(skald_http_requests_total{service="orders",route="POST /orders",status="202"} 2)"));
    CHECK(text.find("status=\"200\"") == std::string::npos);
}

TEST_CASE("sagas that ended show their definition and how they ended")
{
    metrics::database_figures figures;
    figures.add_ended("place-order", "completed", 2, 10, 0.2);
    figures.add_ended("place-order", "completed", 15, 1, 4'000);
    auto const text = page_of(figures.now());
    CHECK(has_line(text, R"(skald_saga_seconds_bucket{service="payments",definition="place-order",result="completed",)"
                         R"(le="0.025"} 10)"));
    CHECK(has_line(text,
                   R"(skald_saga_seconds_count{service="payments",definition="place-order",result="completed"} 11)"));
}

TEST_CASE("a step shows its limit from its first delivery on, and none of zero before")
{
    auto const text = [](metrics::limit_metrics const& m) {
        metrics::exposition page{"payments", metrics::of::all};
        metrics::write(page, "charge", m);
        return page.text();
    };
    metrics::limit_metrics m;
    CHECK(text(m).find("\nskald_step_limit_lanes{") == std::string::npos);
    CHECK(text(m).find("\nskald_step_limit_deliveries{") == std::string::npos);
    CHECK(has_line(text(m), R"(skald_step_takes_turns{service="payments",step="charge"} 0)"));
    m.lanes.set(4);
    m.batch.set(8);
    CHECK(has_line(text(m), R"(skald_step_limit_lanes{service="payments",step="charge"} 4)"));
    CHECK(has_line(text(m), R"(skald_step_limit_deliveries{service="payments",step="charge"} 8)"));
}

TEST_CASE("a label's value is escaped")
{
    metrics::route_metrics m{"GET /a\"b\\c"};
    metrics::exposition page{"orders", metrics::of::all};
    metrics::write(page, m);
    CHECK(has_line(page.text(), R"(skald_http_replayed_total{service="orders",route="GET /a\"b\\c"} 0)"));
}
