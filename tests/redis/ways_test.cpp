// Whatever is in front of the guard, a client is told the same.
#include "redis/fronted_service.hpp"

#include <skald/errors.hpp>
#include <skald/service.hpp>
#include <skald/worker.hpp>

#include <doctest/doctest.h>

#include <thread>

using namespace skald;
using test::fronted_service;
using test::is_replay;
using test::whole;

namespace {

std::vector<std::string> const ways{"postgres", "cache_aside", "lock", "accelerator", "redis_only"};

std::string refusal(std::string const& way, std::string const& url, bool has_front)
try {
    config c;
    c.guard = way;
    c.redis_url = url;
    service orders{"orders"};
    if (has_front) orders.front(redis());
    worker const made{std::move(orders), c};
    return "";
}
catch (configuration_error const& error) {
    return error.what();
}

}  // namespace

TEST_CASE(
    "whatever is in front, a duplicate gets the first response, another request 422, and the effect is there once")
{
    test::redis_server redis;
    for (auto const& way : ways) {
        CAPTURE(way);
        test::shared_effects shared;
        fronted_service one{shared, way, redis.url()}, other{shared, way, redis.url()};
        one.see_epoch();
        other.see_epoch();
        for (std::string const target : {"/once", "/again"}) {
            auto const key = way + target;
            auto const first = one.ask(key, "{}", "shop", target);
            CHECK(first.status == 201);
            for (auto const* by : {&one, &other, &one}) {
                auto const again = by->ask(key, "{}", "shop", target);
                CHECK(is_replay(again));
                CHECK(whole(again) == whole(first));
                CHECK(by->ask(key, "another request", "shop", target).status == 422);
            }
            CHECK_FALSE(is_replay(one.ask(key, "{}", "another shop", target)));
            CHECK(shared.of(key) == "2");
        }
    }
}

TEST_CASE("whatever is in front, of many at a time one runs, and each other hears its response or 409")
{
    test::redis_server redis;
    for (auto const& way : ways) {
        CAPTURE(way);
        redis.run({"FLUSHALL"});  // the database is the same one, and of the same epoch
        test::shared_effects shared;
        fronted_service const one{shared, way, redis.url()}, other{shared, way, redis.url()};
        std::atomic<int> wrong{};
        auto const ask_all = [&](fronted_service const& by) {
            for (int n = 0; n < 25; ++n) {
                auto const key = "k" + std::to_string(n);
                auto const got = by.ask(key);
                if (got.status != 409 && (got.status != 201 || !got.body.starts_with("made for " + key + " "))) ++wrong;
            }
        };
        {
            std::vector<std::jthread> clients;
            for (int n = 0; n < 3; ++n)
                for (auto const* by : {&one, &other}) clients.emplace_back([&, by] { ask_all(*by); });
        }
        CHECK(wrong == 0);
        CHECK(shared.db.one("SELECT count(*) || ' of ' || count(DISTINCT key) FROM effect") == "25 of 25");
    }
}

TEST_CASE("a setting that can't work is refused with what to do")
{
    CHECK(refusal("cache_aside", "redis://h", false).find("service.front(skald::redis())") != std::string::npos);
    CHECK(refusal("cache_aside", "", true).find("set SKALD_REDIS_URL") != std::string::npos);
    CHECK(refusal("cash_aside", "redis://h", true).find("cache_aside") != std::string::npos);
    CHECK(refusal("accelerator", "redis://h", true).empty());
    CHECK(refusal("postgres", "", false).empty());
}
