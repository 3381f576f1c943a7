#include "entry/epoch_watch.hpp"
#include "entry/response_cache.hpp"

#include <doctest/doctest.h>

using namespace skald::entry_detail;
using namespace std::chrono_literals;

namespace {

auto const begin = response_cache::clock::time_point{} + 1h;

skald::ports::kept_response answer(std::string key, std::string body = "made", std::string scope = "")
{
    return {
        {std::move(scope), std::move(key)}, "fingerprint", {201, "text/plain", {{"ETag", "\"1\""}}, std::move(body)}};
}

std::string body_of(response_cache const& kept, std::string const& key, response_cache::clock::time_point now = begin)
{
    auto const found = kept.find({"", key}, now);
    return found ? found->answer.body : "none";
}

}  // namespace

TEST_CASE("an answer is kept whole, for its scope and key alone")
{
    response_cache kept{{1'000'000, 60s}};
    kept.keep(answer("k", "made", "shop-1"), begin);
    auto const found = kept.find({"shop-1", "k"}, begin);
    REQUIRE(found);
    CHECK(found->fingerprint == "fingerprint");
    CHECK(found->answer.status == 201);
    CHECK(found->answer.headers == skald::http::header_list{{"ETag", "\"1\""}});
    CHECK(found->answer.body == "made");
    CHECK_FALSE(kept.find({"", "k"}, begin));
    CHECK_FALSE(kept.find({"shop-2", "k"}, begin));
    CHECK_FALSE(kept.find({"shop-1", "k2"}, begin));
}

TEST_CASE("an answer is kept for its time from when it was given, and not a moment longer")
{
    response_cache kept{{1'000'000, 60s}};
    kept.keep(answer("k"), begin);
    kept.keep(answer("k"), begin + 30s);  // found again, which is no new one
    CHECK(body_of(kept, "k", begin + 60s - 1ns) == "made");
    CHECK(body_of(kept, "k", begin + 60s) == "none");
}

TEST_CASE("one whose time is over makes room for the same key")
{
    response_cache kept{{1'000'000, 60s}};
    kept.keep(answer("k", "old"), begin);
    kept.keep(answer("k", "new"), begin + 61s);
    CHECK(body_of(kept, "k", begin + 62s) == "new");
}

TEST_CASE("the first make room for the next, by bytes")
{
    response_cache kept{{100'000, 60s}};
    for (int n = 0; n < 50; ++n) kept.keep(answer("k" + std::to_string(n), std::string(5'000, 'x')), begin);
    int found = 0;
    for (int n = 0; n < 50; ++n) found += body_of(kept, "k" + std::to_string(n)) != "none" ? 1 : 0;
    CHECK(found > 10);
    CHECK(found * 5'000 <= 100'000);
    CHECK(body_of(kept, "k49") != "none");
    CHECK(body_of(kept, "k0") == "none");
}

TEST_CASE("what would take a large part of the room is not kept, and neither is anything where there is no room")
{
    response_cache kept{{100'000, 60s}};
    kept.keep(answer("small"), begin);
    kept.keep(answer("large", std::string(10'000, 'x')), begin);
    CHECK(body_of(kept, "large") == "none");
    CHECK(body_of(kept, "small") == "made");

    response_cache none;
    none.keep(answer("k"), begin);
    CHECK(body_of(none, "k") == "none");
}

TEST_CASE("one of another epoch takes the place of what was kept, and one of the same epoch does not")
{
    response_cache kept{{1'000'000, 60s}};
    auto const keep = [&](std::string const& body, std::string const& epoch) {
        auto one = answer("k", body);
        one.epoch = epoch;
        kept.keep(std::move(one), begin);
    };
    keep("one", "e1");
    keep("one again", "e1");
    CHECK(body_of(kept, "k") == "one");
    keep("two", "e2");
    CHECK(body_of(kept, "k") == "two");
    CHECK(kept.find({"", "k"}, begin)->epoch == "e2");
}

TEST_CASE("the epoch is the one that the claim saw which was sent last, whichever was answered last")
{
    epoch_watch epochs;
    CHECK(epochs.last().empty());
    epochs.saw("e1", {}, begin);
    CHECK(epochs.last() == "e1");
    epochs.saw("e2", {}, begin + 2s);
    epochs.saw("e1", {}, begin + 1s);
    CHECK(epochs.last() == "e2");
}

TEST_CASE("the epoch is known for a lease from when the claim was sent, with a time that the database's is not beyond")
{
    skald::core::instant const noon{1'000'000h};
    epoch_watch epochs{1s};
    CHECK_FALSE(epochs.current(begin));
    epochs.saw("e1", noon, begin);
    REQUIRE(epochs.current(begin + 1s));
    CHECK(epochs.current(begin + 1s)->epoch == "e1");
    CHECK(epochs.current(begin + 1s)->now == noon + 1s);
    CHECK(epochs.current(begin + 1ns)->now == noon + 1us);
    CHECK_FALSE(epochs.current(begin + 1s + 1ns));
    CHECK(epochs.last() == "e1");
    epochs.saw("", noon, begin + 2s);  // a server that does not say
    CHECK_FALSE(epochs.current(begin + 2s));
}
