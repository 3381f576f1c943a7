// Routes that may repeat: Redis alone remembers their keys, and they are at least once.
#include "redis/fronted_service.hpp"

#include <doctest/doctest.h>

#include "examples/order_saga/order_saga.hpp"

using namespace skald;
using test::fronted_service;
using test::is_replay;
using test::whole;
using kind = ports::found::kind;

namespace {

struct alone
{
    http::response ask(fronted_service const& by, std::string const& key, std::string const& body = "{}") const
    {
        return by.ask(key, body, "shop", "/again");
    }

    test::shared_effects shared;
    test::redis_server redis;
    fronted_service one{shared, "redis_only", redis.url()};
    fronted_service other{shared, "redis_only", redis.url()};
};

}  // namespace

TEST_CASE_FIXTURE(alone, "Redis alone remembers a route that may repeat: the guard keeps no record of it")
{
    auto const first = ask(one, "k");
    CHECK(first.status == 201);
    CHECK(whole(ask(other, "k")) == whole(first));
    CHECK(is_replay(ask(other, "k")));
    CHECK(ask(other, "k", "another request").status == 422);
    CHECK(shared.of("k") == "1");
    CHECK(shared.db.one("SELECT count(*) FROM skald.idempotency") == "0");

    redis.run({"FLUSHALL"});
    CHECK_FALSE(is_replay(ask(other, "k")));
    CHECK(shared.of("k") == "2");
}

TEST_CASE_FIXTURE(alone, "while Redis is away such a route does nothing, and another one works by PostgreSQL")
{
    redis.kill();
    CHECK(testing::wait_until([&] { return !one.front().now().is_connected || ask(one, "k").status == 503; }));
    auto const refused = ask(one, "k");
    CHECK(refused.status == 503);
    CHECK(shared.of("k") == "0");
    CHECK(one.ask("guarded").status == 201);
    CHECK(is_replay(one.ask("guarded")));
}

TEST_CASE_FIXTURE(alone, "such a route without a key is refused, and what is not an outcome is not remembered")
{
    CHECK(ask(one, "").status == 400);
    one.then([](http::request_context&) -> http::response { return {429, "", {}, ""}; });
    CHECK(ask(one, "k").status == 429);
    CHECK(shared.of("k") == "0");
    CHECK(ask(other, "k").status == 201);
}

TEST_CASE_FIXTURE(alone, "such a route starts no saga, under any setting")
{
    fronted_service guarded{shared, "postgres", ""};
    for (auto* by : {&one, &guarded}) {
        by->then([](http::request_context& ctx) -> http::response {
            ctx.start(order_saga::place_order, order_saga::order{});
            return {202, "", {}, ""};
        });
        CHECK(ask(*by, "k").status == 500);
    }
    CHECK(shared.of("k") == "0");
    CHECK(shared.db.one("SELECT count(*) FROM skald.saga") == "0");
}

TEST_CASE("a route that may repeat is guarded by PostgreSQL where the setting is any other")
{
    test::redis_server redis;
    for (std::string const way : {"postgres", "cache_aside", "lock", "accelerator"}) {
        test::shared_effects shared;
        fronted_service const by{shared, way, redis.url()};
        auto const first = by.ask(way, "{}", "shop", "/again");
        redis.run({"FLUSHALL"});
        CHECK(whole(by.ask(way, "{}", "shop", "/again")) == whole(first));
        CHECK(shared.of(way) == "1");
    }
}
