// Responses read through Redis: whatever happens to what is there, the answer is the one that was stored, and nothing
// runs twice.
#include "redis/fronted_service.hpp"

#include <doctest/doctest.h>

using namespace skald;
using test::fronted_service;
using test::is_replay;
using test::whole;
using kind = ports::found::kind;

namespace {

/// Two processes of a service. The second one knows the epoch, and so may believe Redis.
struct two_processes
{
    explicit two_processes(std::vector<std::string> redis_settings = {}, std::string const& way = "cache_aside")
        : redis{std::move(redis_settings)}, one{shared, way, redis.url()}, other{shared, way, redis.url()}
    {
        other.see_epoch();
        wait_for_entries(1);
    }

    void wait_for_entries(std::size_t count)
    {
        REQUIRE(testing::wait_until([&] { return redis.keys(":r").size() == count; }));
    }

    test::shared_effects shared;
    test::redis_server redis;
    fronted_service one;
    fronted_service other;
};

}  // namespace

TEST_CASE_FIXTURE(two_processes, "what one process answered, another answers from Redis, byte for byte")
{
    auto const first = one.ask("k");
    CHECK_FALSE(is_replay(first));
    wait_for_entries(2);
    shared.forget();
    auto const again = other.ask("k");
    CHECK(whole(again) == whole(first));
    CHECK(is_replay(again));
    CHECK(other.asked(kind::result) == 1);
    CHECK(shared.of("k") == "1");
}

TEST_CASE_FIXTURE(two_processes, "another request under the key is refused from Redis, and another scope has its own")
{
    one.ask("k");
    wait_for_entries(2);
    shared.forget();
    CHECK(other.ask("k", "{ }").status == 422);
    CHECK(other.asked(kind::mismatch) == 1);
    CHECK(shared.of("k") == "1");
    CHECK_FALSE(is_replay(other.ask("k", "{}", "another shop")));
    CHECK(shared.of("k") == "2");
}

TEST_CASE_FIXTURE(two_processes, "what PostgreSQL answered on a miss is in Redis from then on; FLUSHALL is a miss")
{
    auto const first = one.ask("k");
    wait_for_entries(2);
    redis.run({"FLUSHALL"});
    redis.run({"SCRIPT", "FLUSH"});
    CHECK(whole(other.ask("k")) == whole(first));
    CHECK(other.asked(kind::result) == 0);
    wait_for_entries(1);
    shared.forget();
    CHECK(whole(other.ask("k")) == whole(first));
    CHECK(other.asked(kind::result) == 1);
    CHECK(shared.of("k") == "1");
}

TEST_CASE_FIXTURE(two_processes, "a malformed entry is none, is counted, and gives way to the stored response")
{
    auto const first = one.ask("k");
    wait_for_entries(2);
    auto const name = redis_detail::name_of("a database", {"shop", "k"}) + ":r";
    auto const good = redis.text({"GET", name});
    auto const other_entry = redis.text({"GET", redis_detail::name_of("a database", {"shop", "epoch-1"}) + ":r"});
    auto damaged = good;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);

    // Read again from PostgreSQL, its time may differ by a few microseconds, and with it the digest.
    auto const gives_way = [&](std::string const& bytes) {
        return testing::wait_until([&] {
            auto const now = redis.text({"GET", name});
            return now != bytes && now.size() == good.size();
        });
    };
    std::uint64_t counted = 0;
    for (auto const& bytes : {damaged, good.substr(0, good.size() / 2), other_entry, good + "x"}) {
        redis.run({"SET", name, bytes});
        CHECK(whole(other.ask("k")) == whole(first));
        CHECK(other.front().now().malformed == ++counted);
        CHECK(gives_way(bytes));
    }
    for (auto const& foreign : {redis_detail::words{"SET", name, "hello"}, {"SET", name, ""}, {"LPUSH", name, "x"}}) {
        redis.run({"DEL", name});
        redis.run(foreign);
        CHECK(whole(other.ask("k")) == whole(first));
        CHECK(gives_way(""));
    }
    CHECK(other.asked(kind::away) == 0);
    CHECK(other.asked(kind::result) == 0);
    CHECK(whole(other.ask("k")) == whole(first));
    CHECK(other.asked(kind::result) == 1);
    CHECK(shared.of("k") == "1");
}

TEST_CASE_FIXTURE(two_processes,
                  "while hardly any request is a duplicate Redis is left alone, until any process meets duplicates")
{
    for (std::size_t n = 0; n < entry_detail::duplicate_share::looked_at; ++n) one.ask("n" + std::to_string(n));
    auto const asked = one.asked(kind::nothing);
    auto const first = one.ask("alone");
    CHECK(one.asked(kind::nothing) == asked);
    CHECK(one.not_asked() >= 1);
    CHECK(redis.text({"GET", redis_detail::name_of("a database", {"shop", "alone"}) + ":r"}).empty());

    // The other process gets duplicates of what this one answered: PostgreSQL has them all.
    for (int n = 0; n < 2 * static_cast<int>(entry_detail::duplicate_share::worth_it); ++n)
        CHECK(whole(other.ask("alone")) == whole(first));
    CHECK(shared.of("alone") == "1");
    REQUIRE(testing::wait_until([&] {
        other.ask("alone");
        return one.front().is_wanted();
    }));
    auto const together = one.ask("together");
    shared.forget();
    CHECK(whole(other.ask("together")) == whole(together));
    CHECK(shared.of("together") == "1");
}

TEST_CASE("a new epoch of the database makes void what is in Redis")
{
    two_processes both;
    auto& shared = both.shared;
    auto &one = both.one, &other = both.other;
    auto const first = one.ask("k");
    both.wait_for_entries(2);
    CHECK(whole(other.ask("k")) == whole(first));
    REQUIRE(other.asked(kind::result) == 1);

    // As after a failover that lost it.
    shared.db.run(
        "BEGIN; DELETE FROM skald.response; DELETE FROM skald.idempotency; SELECT skald.begin_epoch(); COMMIT");
    other.see_epoch();
    auto const again = other.ask("k");
    CHECK_FALSE(is_replay(again));
    CHECK(again.body != first.body);
    CHECK(other.asked(kind::result) == 1);

    one.see_epoch();
    CHECK(whole(one.ask("k")) == whole(again));
}

TEST_CASE("a process that has not seen the epoch asks PostgreSQL first, and Redis from then on")
{
    two_processes both;
    both.one.ask("k");
    both.wait_for_entries(2);
    fronted_service const third{both.shared, "cache_aside", both.redis.url()};
    CHECK(is_replay(third.ask("k")));
    CHECK(third.asked(kind::result) == 0);
    CHECK(is_replay(third.ask("k")));
    CHECK(third.asked(kind::result) == 1);
}

TEST_CASE("what is not an outcome is not in Redis: a 5xx, and a 4xx that means not now")
{
    two_processes both;
    for (int const status : {500, 503, 429}) {
        both.one.then([status](http::request_context&) -> http::response { return {status, "", {}, ""}; });
        CHECK(both.one.ask("k").status == status);
    }
    both.one.then({});
    CHECK(both.one.ask("k").status == 201);
    both.wait_for_entries(2);
    CHECK(both.other.ask("k").status == 201);
    CHECK(both.shared.of("k") == "1");
}

TEST_CASE("while Redis stands still or is gone, PostgreSQL answers alone; afterwards Redis is asked again")
{
    config quick;
    quick.redis_time = std::chrono::milliseconds{5};
    test::shared_effects shared;
    test::redis_server redis;
    fronted_service one{shared, "cache_aside", redis.url(), quick}, other{shared, "cache_aside", redis.url(), quick};
    auto const all_are_right = [&](std::string const& name) {
        for (int n = 0; n < 20; ++n) {
            auto const key = name + std::to_string(n);
            auto const first = one.ask(key);
            CHECK(first.status == 201);
            CHECK(whole(other.ask(key)) == whole(first));
            CHECK(shared.of(key) == "1");
        }
    };
    auto const is_asked_again = [&] {
        auto const before = other.asked(kind::result);
        return testing::wait_until([&] {
            one.ask("again");
            other.ask("again");
            return other.asked(kind::result) > before;
        });
    };
    REQUIRE(is_asked_again());

    redis.stand_still();
    all_are_right("still");
    auto const condition = other.front().now();
    CHECK((condition.is_avoided || !condition.is_connected || other.asked(kind::away) > 0));
    redis.go_on();
    CHECK(is_asked_again());

    redis.kill();
    all_are_right("gone");
    CHECK(testing::wait_until([&] { return !other.front().now().is_connected; }));
    redis.start();
    CHECK(is_asked_again());
}

TEST_CASE("where Redis has no room, entries are evicted or refused, and the answers are the same")
{
    for (std::string const policy : {"allkeys-lru", "noeviction"})
        for (std::string const way : {"cache_aside", "accelerator"}) {
            CAPTURE(policy);
            CAPTURE(way);
            two_processes both{{"--maxmemory", "3mb", "--maxmemory-policy", policy}, way};
            std::string const large(50'000, 'x');
            both.one.then([&](http::request_context& ctx) -> http::response {
                return {201, "", {}, ctx.key() + large};
            });
            for (int n = 0; n < 80; ++n) CHECK(both.one.ask("k" + std::to_string(n)).status == 201);
            for (int n = 0; n < 80; ++n)
                CHECK(both.other.ask("k" + std::to_string(n)).body == "k" + std::to_string(n) + large);
            CHECK(both.redis.keys(":r").size() < 80);
            CHECK(both.redis.keys(":m").empty());
            CHECK(both.shared.db.one("SELECT max(n) FROM (SELECT count(*) AS n FROM effect GROUP BY key) AS by_key") ==
                  "1");
        }
}
