// Marks in Redis: a duplicate of a request that is under way hears so without a database connection, and the claim in
// PostgreSQL decides all the same.
#include "entry/request_front.hpp"
#include "redis/fronted_service.hpp"
#include "redis/redis_front.hpp"
#include "support/doubtful_store.hpp"

#include <doctest/doctest.h>

#include <future>
#include <latch>

using namespace skald;
using test::fronted_service;
using test::is_replay;
using test::whole;
using kind = ports::found::kind;

namespace {

std::string const no_database = "postgresql://nobody@127.0.0.1:1/none";

std::string header_of(http::response const& answer, std::string const& name)
{
    for (auto const& [header, value] : answer.headers)
        if (header == name) return value;
    return "";
}

/// A request that is under way in a process from `began` until let_end().
class long_request
{
public:
    long_request(fronted_service& by, std::string const& key)
    {
        by.then([this](http::request_context&) -> http::response {
            began_.count_down();
            end_.wait();
            return {201, "", {}, "made"};
        });
        answer_ = std::async(std::launch::async, [&by, key] { return by.ask(key); });
        began_.wait();
    }
    ~long_request() { let_end(); }

    http::response let_end()
    {
        if (!answer_.valid()) return {};
        end_.count_down();
        return answer_.get();
    }

private:
    std::latch began_{1};
    std::latch end_{1};
    std::future<http::response> answer_;
};

struct with_redis
{
    std::string mark(std::string const& key) const { return redis_detail::name_of("a database", {"shop", key}) + ":m"; }

    test::shared_effects shared;
    test::redis_server redis;
};

}  // namespace

TEST_CASE_FIXTURE(with_redis, "a duplicate of a request under way hears 409 without a database, and its end later")
{
    for (std::string const way : {"lock", "accelerator"}) {
        CAPTURE(way);
        fronted_service one{shared, way, redis.url()}, other{shared, way, redis.url()};
        fronted_service const without{shared, way, redis.url(), {}, no_database};
        long_request first{one, way};
        auto const meanwhile = without.ask(way);
        CHECK(meanwhile.status == 409);
        CHECK(header_of(meanwhile, "Retry-After") == "1");
        CHECK(without.ask(way, "another request").status == 409);  // only what is stored tells them apart
        CHECK(without.asked(kind::held) == 2);

        auto const made = first.let_end();
        CHECK(made.status == 201);
        CHECK(redis.keys(":m").empty());
        CHECK(whole(other.ask(way)) == whole(made));
        CHECK(shared.of(way) == "1");
    }
}

TEST_CASE_FIXTURE(with_redis, "the accelerator answers an ended request in the one round trip that marks a new one")
{
    fronted_service const one{shared, "accelerator", redis.url()};
    fronted_service other{shared, "accelerator", redis.url()};
    other.see_epoch();
    auto const made = one.ask("k");
    shared.forget();
    CHECK(whole(other.ask("k")) == whole(made));
    CHECK(other.ask("k", "another request").status == 422);
    CHECK(redis.keys(":m").empty());
    CHECK(other.asked(kind::acquired) == 1);  // of the request that showed it the epoch
    CHECK(other.asked(kind::result) == 1);
    CHECK(other.asked(kind::mismatch) == 1);
}

TEST_CASE_FIXTURE(with_redis, "the accelerator marks a request whose entry is malformed, and replaces it")
{
    fronted_service const one{shared, "accelerator", redis.url()};
    fronted_service other{shared, "accelerator", redis.url()};
    other.see_epoch();
    auto const made = one.ask("k");
    auto const name = redis_detail::name_of("a database", {"shop", "k"}) + ":r";
    auto const good = redis.text({"GET", name});
    redis.run({"SET", name, good + "x"});
    CHECK(whole(other.ask("k")) == whole(made));
    CHECK(redis.text({"GET", name}).size() == good.size());
    CHECK(other.front().now().malformed == 1);
    CHECK(redis.keys(":m").empty());
    CHECK(shared.of("k") == "1");
}

TEST_CASE_FIXTURE(with_redis, "what left nothing behind has no mark either: the same key may be tried again at once")
{
    for (std::string const way : {"lock", "accelerator"}) {
        fronted_service one{shared, way, redis.url()};
        fronted_service const other{shared, way, redis.url()};
        one.then([](http::request_context&) -> http::response { return {503, "", {}, ""}; });
        CHECK(one.ask(way).status == 503);
        one.then([](http::request_context&) -> http::response { throw std::runtime_error{"no"}; });
        CHECK(one.ask(way).status == 500);
        CHECK(redis.keys(":m").empty());
        CHECK(other.ask(way).status == 201);
        CHECK(shared.of(way) == "1");
    }
}

TEST_CASE_FIXTURE(with_redis, "a mark lasts for as long as its process lives and its request is under way")
{
    config brief;
    brief.redis_hold = std::chrono::milliseconds{600};
    fronted_service one{shared, "lock", redis.url(), brief};
    long_request first{one, "k"};
    // It is seen to be extended five times: at some moment more is left than at an earlier one.
    auto left = redis.number({"PTTL", mark("k")});
    for (int extended = 0; extended < 5; ++extended)
        CHECK(testing::wait_until([&] {
            auto const before = std::exchange(left, redis.number({"PTTL", mark("k")}));
            return left > before;
        }));
    CHECK(first.let_end().status == 201);
    CHECK(redis.keys(":m").empty());
}

TEST_CASE("a holder whose mark has expired commits once all the same, and leaves the next mark alone")
{
    with_redis both;
    auto& shared = both.shared;
    auto& redis = both.redis;
    fronted_service one{shared, "accelerator", redis.url()};
    fronted_service const other{shared, "accelerator", redis.url()};
    long_request first{one, "k"};
    redis.run({"DEL", both.mark("k")});   // as if its process had been stopped past its time
    CHECK(other.ask("k").status == 409);  // by PostgreSQL
    CHECK(other.asked(kind::acquired) == 1);

    redis.run({"SET", both.mark("k"), "the next one's", "PX", "2000"});
    CHECK(first.let_end().status == 201);
    CHECK(redis.text({"GET", both.mark("k")}) == "the next one's");
    CHECK(shared.of("k") == "1");
}

TEST_CASE_FIXTURE(with_redis, "a mark without an end, or with more time than any has, holds up nobody")
{
    fronted_service const one{shared, "lock", redis.url()};
    redis.run({"SET", mark("a"), "x"});
    redis.run({"SET", mark("b"), "x", "PX", "3600000"});  // as after a clock that was set back
    redis.run({"LPUSH", mark("c"), "x"});
    for (std::string const key : {"a", "b", "c"}) {
        CHECK(one.ask(key).status == 201);
        CHECK(shared.of(key) == "1");
    }
    CHECK(redis.keys(":m").empty());
}

TEST_CASE_FIXTURE(with_redis, "a request whose COMMIT is in doubt keeps its mark until that expires")
{
    core::silent_logger log;
    redis_detail::redis_front front{{.where = redis_detail::parse_url(redis.url()), .time = std::chrono::seconds{5}},
                                    log};
    front.open("a database");
    REQUIRE(testing::wait_until([&] { return front.now().is_connected; }));
    entry_detail::known_requests known{.front = &front, .way = entry_detail::guard_way::lock};
    test::doubtful_store store{shared.db.url()};
    runtime::backlog const backlog;
    runtime::memory_source out;
    entry_detail::request_guard guard{"orders", store, known, backlog, out, log};

    auto next = test::doubtful_store::loses::the_commit;
    entry_detail::route const by{"POST", "/", http::idempotency::required,
                                 [&](http::request_context&) -> http::response {
                                     store.next = next;
                                     return {201, "", {}, ""};
                                 }};
    http::request r;
    r.method = "POST";
    auto const ask = [&](std::string const& key) {
        entry_detail::destination const to{
            .what = entry_detail::destination::kind::handler, .by = &by, .id = {"shop", key}};
        auto before = entry_detail::ask_front(known, {r, to});
        REQUIRE(before.mark);
        return guard.respond({r, to}, {}, std::move(before.mark)).answer.status;
    };
    CHECK(ask("k") == 503);
    CHECK(redis.keys(":m") == std::vector{mark("k")});
    next = test::doubtful_store::loses::nothing;
    CHECK(ask("k2") == 201);
    CHECK(redis.keys(":m") == std::vector{mark("k")});
}
