#include "redis/entry_bytes.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;

namespace {

ports::kept_response response()
{
    return {{"shop", "k"},
            core::fingerprint_of("request"),
            {201, "text/plain", {{"ETag", "\"1\""}, {"Empty", ""}}, std::string{"made\0\xFF", 6}},
            "e1",
            core::instant{} + 12h};
}

auto read(std::string const& bytes, std::string const& epoch = "e1", core::saga_id const& id = {"shop", "k"},
          std::string const& database = "db")
{
    return redis_detail::read_entry(database, id, epoch, bytes);
}

}  // namespace

TEST_CASE("an entry is read as it was written")
{
    auto const read_again = read(redis_detail::write_entry("db", response()));
    REQUIRE(read_again);
    CHECK(read_again->id == response().id);
    CHECK(read_again->fingerprint == response().fingerprint);
    CHECK(read_again->answer.status == 201);
    CHECK(read_again->answer.content_type == "text/plain");
    CHECK(read_again->answer.headers == response().answer.headers);
    CHECK(read_again->answer.body == response().answer.body);
    CHECK(read_again->epoch == "e1");
    CHECK(read_again->until == response().until);
}

TEST_CASE("an entry of another epoch, key, scope or database is none")
{
    auto const bytes = redis_detail::write_entry("db", response());
    CHECK_FALSE(read(bytes, "e2"));
    CHECK_FALSE(read(bytes, "e1", {"shop", "k2"}));
    CHECK_FALSE(read(bytes, "e1", {"shop2", "k"}));
    CHECK_FALSE(read(bytes, "e1", {"shopk", ""}));
    CHECK_FALSE(read(bytes, "e1", {"shop", "k"}, "db2"));
}

TEST_CASE("an entry of which any bit is changed, or that ends early or late, is none")
{
    auto const bytes = redis_detail::write_entry("db", response());
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            auto changed = bytes;
            changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
            CHECK_FALSE(read(changed));
        }
        CHECK_FALSE(read(bytes.substr(0, at)));
    }
    CHECK_FALSE(read(bytes + '\0'));
}

TEST_CASE("an entry says nothing of its key, and the names of two keys differ")
{
    auto const name = redis_detail::name_of("db", {"shop", "secret"});
    CHECK(name.find("secret") == std::string::npos);
    CHECK(name != redis_detail::name_of("db", {"shops", "ecret"}));
    CHECK(name != redis_detail::name_of("db2", {"shop", "secret"}));
}
