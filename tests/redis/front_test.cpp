// The front by Redis on its own: what becomes of its connections, and what Redis refuses.
#include "redis/entry_bytes.hpp"
#include "redis/redis_front.hpp"
#include "support/recording_logger.hpp"
#include "support/redis_server.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;
using kind = ports::found::kind;

namespace {

core::instant const midday{1'000'000h};
core::saga_id const the_id{"shop", "k"};

struct opened
{
    opened(std::string const& url, std::size_t links, std::chrono::milliseconds hold = 3s)
        : front{{.where = redis_detail::parse_url(url), .time = 5s, .hold = hold, .links = links}, log}
    {
        front.open("db");
        REQUIRE(testing::wait_until([this] { return front.now().is_connected; }));
    }

    ports::found find() { return front.find({the_id, "request", "e", midday}); }
    ports::found acquire() { return front.acquire({the_id, "request", "e", midday}, true); }

    test::recording_logger log;
    redis_detail::redis_front front;
};

ports::kept_response kept(std::string body)
{
    return {the_id, "request", {201, "text/plain", {}, std::move(body)}, "e", midday + 12h};
}

// Of the connections with this in their lines.
std::vector<std::string> ids_with(test::redis_server const& redis, std::string const& text)
{
    std::vector<std::string> ids;
    auto const all = redis.text({"CLIENT", "LIST"});
    for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1) {
        auto const line = all.substr(at, all.find('\n', at) - at);
        if (line.find(' ' + text + ' ') != std::string::npos) ids.push_back(line.substr(3, line.find(' ') - 3));
    }
    return ids;
}

}  // namespace

TEST_CASE("where Redis lets fewer connections in than are wanted, those that there are go on")
{
    test::redis_server const redis{{"--maxclients", "4"}};
    opened by{redis.url(), 16};
    REQUIRE(testing::wait_until([&] { return by.log.has("front.away"); }));
    by.front.keep(kept("made"));
    CHECK(testing::wait_until([&] { return by.find().what == kind::result; }));
    CHECK(by.front.now().is_connected);
    CHECK(by.log.count("front.connected") == 1);
}

TEST_CASE("a connection that ended while nobody used it is not asked by")
{
    test::redis_server const redis;
    opened by{redis.url(), 2};
    CHECK(by.find().what == kind::nothing);
    auto const used = ids_with(redis, "cmd=get");
    REQUIRE(used.size() == 1);
    redis.run({"CLIENT", "KILL", "ID", used.front()});
    CHECK(testing::wait_until([&] { return by.find().what == kind::nothing; }));  // by the second one
    CHECK_FALSE(by.log.has("front.no_answer"));
}

TEST_CASE("what Redis refuses is said once for each kind, and the connection stays")
{
    test::redis_server const redis;
    redis.run({"ACL", "SETUSER", "skald", "on", ">pw", "~*", "+@all", "-get", "-set"});
    opened by{"redis://skald:pw@127.0.0.1:" + std::to_string(redis.port()), 1};
    auto const connected = ids_with(redis, "user=skald");
    for (int n = 0; n < 2; ++n) CHECK(by.find().what == kind::away);
    CHECK(connected.size() == 2);
    CHECK(ids_with(redis, "user=skald") == connected);
    CHECK(by.log.count("front.refused error=\"NOPERM") == 1);
    CHECK_FALSE(by.log.has("front.no_answer"));
}

TEST_CASE("what AUTH answered is not quoted")
{
    test::redis_server const redis;
    auto const refusal = [&](std::string const& user_info) -> std::string {
        try {
            auto const where =
                redis_detail::parse_url("redis://" + user_info + "@127.0.0.1:" + std::to_string(redis.port()));
            redis_detail::connect(where, redis_detail::link::clock::now() + 10s);
            return "";
        }
        catch (redis_detail::link_error const& error) {
            return error.what();
        }
    };
    CHECK(refusal("nobody:secret") == "AUTH was refused: WRONGPASS");
    CHECK(refusal(":secret") == "AUTH was refused: ERR");
}

TEST_CASE("an entry that is too large is not kept, and takes its mark away all the same")
{
    test::redis_server const redis;
    opened by{redis.url(), 2};
    auto const large = std::string(redis_detail::entry_bytes_max, 'x');
    by.front.keep(kept(large));
    CHECK(by.front.now().dropped == 1);
    auto const mark = by.acquire();
    REQUIRE(mark.what == kind::acquired);
    CHECK_FALSE(by.front.keep_and_release(kept(large), mark.token));
    CHECK(by.acquire().what == kind::acquired);
    CHECK(by.front.now().dropped == 2);
}
