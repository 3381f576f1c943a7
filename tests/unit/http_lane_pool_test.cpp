#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "http/lane_pool.hpp"

using namespace skald;
using namespace skald::http;

namespace {

core::silent_logger silent;

lane_pool::pending_request request_for(
    std::string path, std::function<void(response)> answered = [](response) {})
{
    request message;
    message.method = "GET";
    message.path = std::move(path);
    return {.asked = {std::move(message)},
            .on_reply = [answered = std::move(answered)](received, reply made) { answered(std::move(made.answer)); }};
}

response ok(std::string body = {})
{
    return {.status = 200, .content_type = {}, .headers = {}, .body = std::move(body)};
}

}  // namespace

TEST_CASE("each lane is one thread, and all lanes can work at once")
{
    constexpr std::size_t lanes = 3;
    std::latch all_in{lanes};
    std::mutex mutex;
    std::map<std::size_t, std::set<std::thread::id>> threads;
    lane_pool pool{lanes, 100,
                   [&](received& asked, std::size_t lane) {
                       if (asked.message.path == "/meet") all_in.arrive_and_wait();
                       std::lock_guard const lock{mutex};
                       threads[lane].insert(std::this_thread::get_id());
                       return ok();
                   },
                   silent};
    pool.start();
    std::latch answered{60};
    for (int i = 0; i < 60; ++i) {
        auto pending = request_for(i < 3 ? "/meet" : "/go", [&](response) { answered.count_down(); });
        REQUIRE(pool.submit(pending));
    }
    answered.wait();
    CHECK(threads.size() == lanes);
    for (auto const& [lane, ids] : threads) CHECK(ids.size() == 1);
}

TEST_CASE("requests are served in their order, with what the handlers noted about them")
{
    std::latch entered{1};
    std::latch release{1};
    std::string served;
    lane_pool pool{1, 100,
                   [&](received& asked, std::size_t) {
                       if (asked.message.path == "/hold") {
                           entered.count_down();
                           release.wait();
                       }
                       served += asked.message.path + std::any_cast<std::string>(asked.notes);
                       asked.notes = std::string{"seen"};
                       return ok();
                   },
                   silent};
    pool.start();
    std::latch answered{4};
    std::string kept;
    for (std::string const path : {"/hold", "/a", "/b", "/c"}) {
        lane_pool::pending_request pending{{request_for(path).asked.message, std::string{"!"}},
                                           [&](received asked, reply) {
                                               kept += std::any_cast<std::string>(asked.notes);
                                               answered.count_down();
                                           }};
        REQUIRE(pool.submit(pending));
        if (path == "/hold") entered.wait();
    }
    release.count_down();
    answered.wait();
    CHECK(served == "/hold!/a!/b!/c!");
    CHECK(kept == "seenseenseenseen");
}

TEST_CASE("what doesn't fit is turned down, and keeps its request")
{
    std::latch entered{2};
    std::latch release{1};
    lane_pool pool{2, 1,
                   [&](received&, std::size_t) {
                       entered.count_down();
                       release.wait();
                       return ok();
                   },
                   silent};
    pool.start();
    for (int i = 0; i < 2; ++i) {
        auto running = request_for("/running");
        REQUIRE(pool.submit(running));
    }
    entered.wait();
    auto waiting = request_for("/waiting");
    auto beyond = request_for("/beyond");
    // Both lanes are held until `release`, so this one stays in the queue, and is forgotten by stop().
    CHECK(pool.submit(waiting));
    CHECK_FALSE(pool.submit(beyond));
    CHECK(beyond.asked.message.path == "/beyond");
    pool.stop();
    release.count_down();
    pool.join();
    CHECK_FALSE(pool.submit(beyond));
}

TEST_CASE("a queue of none still hands work to a free lane")
{
    lane_pool pool{1, 0, [](received&, std::size_t) { return ok("done"); }, silent};
    pool.start();
    for (int i = 0; i < 20; ++i) {
        std::promise<response> promise;
        auto pending = request_for("/", [&](response answer) { promise.set_value(std::move(answer)); });
        REQUIRE(pool.submit(pending));
        CHECK(promise.get_future().get().body == "done");
    }
}

TEST_CASE("an exception of the handler is a 500 that tells the client nothing and the log everything")
{
    struct recorder final : core::logger
    {
        std::string line;
        void write(core::severity, std::string_view event, std::span<core::log_field const> fields) noexcept override
        {
            line = event;
            for (auto const& f : fields) line.append(" ").append(std::get<std::string_view>(f.value));
        }
    } log;
    auto const thrown = [](auto const& value) {
        try {
            throw value;
        }
        catch (...) {
            return std::current_exception();
        }
    };
    auto const message = request_for("/orders").asked.message;
    auto answer = internal_error(message, thrown(std::runtime_error{"password=secret"}), log);
    CHECK(answer.status == 500);
    CHECK(answer.body.find("secret") == std::string::npos);
    CHECK(log.line == "http.handler_failed GET /orders password=secret");

    answer = internal_error(message, thrown(42), log);
    CHECK(answer.status == 500);
    CHECK(log.line == "http.handler_failed GET /orders an exception of unknown type");
}

TEST_CASE("a handler that still runs is waited for as long as is said, and no longer")
{
    std::latch begun{1}, may_end{1};
    lane_pool lanes{1, 1,
                    [&](received const&, std::size_t) -> reply {
                        begun.count_down();
                        may_end.wait();
                        return {ok()};
                    },
                    silent};
    lanes.start();
    auto asked = request_for("/");
    REQUIRE(lanes.submit(asked));
    begun.wait();
    lanes.stop();
    CHECK_FALSE(lanes.wait_until_idle(std::chrono::milliseconds{0}));
    may_end.count_down();
    CHECK(lanes.wait_until_idle(std::chrono::seconds{30}));
    lanes.join();
}
