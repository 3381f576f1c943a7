// What keeps responses is held to the same: memory, and Redis.
#include "core/log.hpp"
#include "entry/response_cache.hpp"
#include "redis/redis_front.hpp"
#include "support/redis_server.hpp"

#include <doctest/doctest.h>

#include <optional>

using namespace skald;
using namespace std::chrono_literals;
using kind = ports::found::kind;

namespace {

core::instant const noon{1'000'000h};

struct in_memory
{
    entry_detail::response_cache tier{{1'000'000, 1h}};
};

struct in_redis
{
    in_redis()
    {
        tier.open("db");
        REQUIRE(testing::wait_until([&] { return tier.now().is_connected; }));
    }

    test::redis_server server;
    core::silent_logger log;
    redis_detail::redis_front tier{{.where = redis_detail::parse_url(server.url()), .time = 5s}, log};
};

ports::kept_response response(std::string const& body, std::string const& epoch)
{
    return {{"shop", "k"}, "request", {201, "text/plain", {{"ETag", "\"1\""}}, body}, epoch, noon + 12h};
}

ports::found ask(ports::response_tier& tier, std::string const& epoch, std::string const& fingerprint = "request",
                 core::instant now = noon, core::saga_id const& id = {"shop", "k"})
{
    return tier.find({id, fingerprint, epoch, now});
}

// It need not be there at once.
bool has(ports::response_tier& tier, std::string const& epoch, std::string const& body)
{
    return testing::wait_until([&] {
        auto const met = ask(tier, epoch);
        return met.what == kind::result && met.response->answer.body == body;
    });
}

}  // namespace

TEST_CASE_TEMPLATE("a tier finds what was kept, whole, for its key and its request alone", Place, in_memory, in_redis)
{
    Place place;
    CHECK(ask(place.tier, "e1").what == kind::nothing);
    place.tier.keep(response("made", "e1"));
    REQUIRE(has(place.tier, "e1", "made"));
    CHECK(ask(place.tier, "e1").response->answer.headers == http::header_list{{"ETag", "\"1\""}});
    CHECK(ask(place.tier, "e1", "another").what == kind::mismatch);
    CHECK(ask(place.tier, "e1", "request", noon, {"shop", "k2"}).what == kind::nothing);
    CHECK(ask(place.tier, "e1", "request", noon, {"", "k"}).what == kind::nothing);
}

TEST_CASE_TEMPLATE("a tier finds nothing of another epoch, where a later response takes its place", Place, in_memory,
                   in_redis)
{
    Place place;
    place.tier.keep(response("lost", "e1"));
    REQUIRE(has(place.tier, "e1", "lost"));
    CHECK(ask(place.tier, "e2").what == kind::nothing);
    CHECK(ask(place.tier, "e2", "another").what == kind::nothing);
    place.tier.keep(response("made again", "e2"));
    CHECK(has(place.tier, "e2", "made again"));
    CHECK(ask(place.tier, "e1").what == kind::nothing);
}

TEST_CASE_TEMPLATE("a tier finds nothing that the purge may have deleted, by the database's clock", Place, in_memory,
                   in_redis)
{
    Place place;
    place.tier.keep(response("made", "e1"));
    REQUIRE(has(place.tier, "e1", "made"));
    CHECK(ask(place.tier, "e1", "request", noon + 12h - 1us).what == kind::result);
    CHECK(ask(place.tier, "e1", "request", noon + 12h).what == kind::nothing);
}
