// Whoever counts is told of every response, once, with its route and whether it was served.
#include "support/live_server.hpp"

#include <map>
#include <tuple>

using namespace skald;
using namespace skald::test;

namespace {

/// The route of a request is how long its path is.
class counting_observer final : public http::observer
{
public:
    std::size_t route_of(received const& asked) const override { return asked.message.path.size(); }
    void responded(std::size_t route, response const& made,
                   std::optional<std::chrono::steady_clock::duration> took) override
    {
        std::lock_guard const lock{mutex_};
        ++seen_[{route, made.status, took.has_value()}];
    }
    int of(std::size_t route, int status, bool was_served)
    {
        std::lock_guard const lock{mutex_};
        return seen_[{route, status, was_served}];
    }
    int all()
    {
        std::lock_guard const lock{mutex_};
        int sum = 0;
        for (auto const& [what, count] : seen_) sum += count;
        return sum;
    }

private:
    std::mutex mutex_;
    std::map<std::tuple<std::size_t, int, bool>, int> seen_;
};

/// Its responses are those of the path: "/ok", "/throws", "/wait" until it is ready.
struct observed_server
{
    explicit observed_server(server_options options = {})
        : service{on_free_port(options), [this](received& asked, std::size_t) { return handle(asked.message); }, log,
                  [](received& asked) {
                      return asked.message.path == "/now" ? std::optional<http::reply>{text("now")} : std::nullopt;
                  },
                  &seen}
    {
        service.start();
    }
    http::reply handle(request const& message)
    {
        if (message.path == "/throws") throw std::runtime_error{"secret"};
        if (message.path == "/wait" && asked_to_wait++ < 3) return {text("not yet"), 600s};
        return text("ok");
    }
    raw_client connect() { return raw_client{service.port()}; }

    counting_observer seen;
    std::atomic<int> asked_to_wait{0};
    event_log log;
    http::server service;
};

}  // namespace

TEST_CASE("responses are told with their routes, whoever made them")
{
    observed_server live;
    auto client = live.connect();
    CHECK(client.ask(get("/ok")).status == 200);
    CHECK(client.ask(get("/ok")).status == 200);
    CHECK(client.ask(get("/now")).status == 200);
    CHECK(client.ask(get("/throws")).status == 500);
    CHECK(live.seen.of(3, 200, true) == 2);
    CHECK(live.seen.of(4, 200, true) == 1);
    CHECK(live.seen.of(7, 500, true) == 1);
    CHECK(live.seen.all() == 4);
}

TEST_CASE("a request that was never complete has no route and no time")
{
    observed_server live;
    CHECK(live.connect().ask("GET /ok HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status == 400);
    CHECK(live.seen.of(0, 400, false) == 1);
    CHECK(live.seen.all() == 1);
}

TEST_CASE("a request that waits and is polled is one response")
{
    observed_server live{{.wait_max = 600s}};
    CHECK(live.connect().ask(get("/wait")).status == 200);
    CHECK(live.seen.of(5, 200, true) == 1);
    CHECK(live.seen.all() == 1);
}
