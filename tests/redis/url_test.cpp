#include "redis/url.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using skald::redis_detail::endpoint;
using skald::redis_detail::parse_url;

namespace {

std::string refusal(std::string const& url)
try {
    parse_url(url);
    return "";
}
catch (std::invalid_argument const& error) {
    return error.what();
}

bool is_refused(std::string const& url, std::string const& why)
{
    return refusal(url).find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("a URL names a server, its database, and whom it is asked as")
{
    auto const plain = parse_url("redis://cache");
    CHECK(plain.endpoints == std::vector{endpoint{"cache", 6379}});
    CHECK(plain.master.empty());
    CHECK(plain.database == 0);

    auto const whole = parse_url("redis://me:p%40ss@[::1]:7000/3");
    CHECK(whole.endpoints == std::vector{endpoint{"::1", 7000}});
    CHECK(whole.user == "me");
    CHECK(whole.password == "p@ss");
    CHECK(whole.database == 3);
    CHECK(parse_url("redis://:only@h").password == "only");
    CHECK_FALSE(whole.has_tls);
    CHECK(parse_url("rediss://:only@h").has_tls);
    CHECK(parse_url("rediss://:only@h").password == "only");
    CHECK(parse_url("redis://[::1]").endpoints.front().port == 6379);
}

TEST_CASE("a URL may name sentinels, and then the server's name there")
{
    auto const found = parse_url("redis-sentinel://a,b:27000/mymaster/2");
    CHECK(found.endpoints == std::vector<endpoint>{{"a", 26379}, {"b", 27000}});
    CHECK(found.master == "mymaster");
    CHECK(found.database == 2);
}

TEST_CASE("a URL that can't work is refused with what to write, and never quoted")
{
    CHECK(is_refused("http://h", "does not begin"));
    CHECK(is_refused("redis://", "there is no host"));
    CHECK(is_refused("redis://h:0", "the port"));
    CHECK(is_refused("redis://h:", "the port"));
    CHECK(is_refused("redis://h:70000", "the port"));
    CHECK(is_refused("redis://[::1", "without its ]"));
    CHECK(is_refused("redis://[::1]x", "goes on"));
    CHECK(is_refused("redis://h/x", "the database"));
    CHECK(is_refused("redis://a,b", "several"));
    CHECK(is_refused("redis://me@h", "without a password"));
    CHECK(is_refused("redis://:%4@h", "hexadecimal"));
    CHECK(is_refused("redis-sentinel://a,b", "the name"));
    CHECK(is_refused("redis://h?x=1", "?"));
    CHECK(refusal("redis://me:secret@h:x").find("secret") == std::string::npos);
}
