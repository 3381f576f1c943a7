#include <doctest/doctest.h>

#include <stdexcept>

#include "http/router.hpp"

using namespace skald::http;

namespace {

request asking(std::string method, std::string target)
{
    request message;
    message.method = std::move(method);
    message.target = std::move(target);
    return message;
}

struct sagas
{
    router routes;
    std::size_t const list = routes.add("GET", "/sagas");
    std::size_t const start = routes.add("POST", "/sagas");
    std::size_t const parked = routes.add("GET", "/sagas/parked");
    std::size_t const show = routes.add("GET", "/sagas/{key}");
    std::size_t const step = routes.add("DELETE", "/sagas/{key}/steps/{step}");
    std::size_t const root = routes.add("GET", "/");

    route_match match(std::string const& method, std::string const& target) const
    {
        auto found = routes.find(asking(method, target));
        REQUIRE(std::holds_alternative<route_match>(found));
        return std::get<route_match>(found);
    }
    response refusal_of(std::string const& method, std::string const& target) const
    {
        auto found = routes.find(asking(method, target));
        REQUIRE(std::holds_alternative<response>(found));
        return std::get<response>(found);
    }
};

}  // namespace

TEST_CASE_FIXTURE(sagas, "a request finds the route of its method and path")
{
    CHECK(match("GET", "/sagas").route == list);
    CHECK(match("GET", "/sagas?state=parked").route == list);
    CHECK(match("POST", "/sagas").route == start);
    CHECK(match("GET", "http://shop/sagas").route == list);
    CHECK(match("GET", "/%73agas").route == list);
    CHECK(match("GET", "/").route == root);
}

TEST_CASE_FIXTURE(sagas, "a parameter is one segment, decoded after the path was split")
{
    CHECK(match("GET", "/sagas/a%2Fb:c").parameters.at("key") == "a/b:c");
    auto const two = match("DELETE", "/sagas/order-1/steps/charge%20card");
    CHECK(two.route == step);
    CHECK(two.parameters.at("key") == "order-1");
    CHECK(two.parameters.at("step") == "charge card");
    CHECK(refusal_of("GET", "/sagas/a/b").status == 404);
}

TEST_CASE_FIXTURE(sagas, "a literal segment wins over a parameter, whichever was added first")
{
    CHECK(match("GET", "/sagas/parked").route == parked);
    router other;
    auto const parameter = other.add("GET", "/{a}/{b}");
    auto const literal = other.add("GET", "/x/{b}");
    CHECK(std::get<route_match>(other.find(asking("GET", "/x/y"))).route == literal);
    CHECK(std::get<route_match>(other.find(asking("GET", "/z/y"))).route == parameter);
}

TEST_CASE_FIXTURE(sagas, "HEAD finds the route of GET unless it has its own")
{
    CHECK(match("HEAD", "/sagas").route == list);
    auto const own = routes.add("HEAD", "/sagas");
    CHECK(match("HEAD", "/sagas").route == own);
    CHECK(match("GET", "/sagas").route == list);
}

TEST_CASE_FIXTURE(sagas, "an unknown path is a 404")
{
    for (auto const* target : {"/saga", "/sagas/", "/sagas//", "//sagas", "/sagas/../sagas", "/SAGAS", "/sagas/%zz",
                               "/sagas/%00", "*", "/sagas/k/steps/"}) {
        CAPTURE(target);
        auto const answer = refusal_of("GET", target);
        CHECK(answer.status == 404);
        CHECK(answer.content_type == "application/problem+json");
    }
}

TEST_CASE_FIXTURE(sagas, "a known path with another method is a 405 that says which there are")
{
    auto const answer = refusal_of("DELETE", "/sagas");
    CHECK(answer.status == 405);
    REQUIRE(answer.headers.size() == 1);
    CHECK(answer.headers[0].first == "Allow");
    CHECK(answer.headers[0].second == "GET, HEAD, POST");
    CHECK(refusal_of("get", "/sagas").status == 405);  // methods are case-sensitive
}

TEST_CASE_FIXTURE(sagas, "a malformed pattern and a second route for the same paths are errors of the program")
{
    CHECK_THROWS_WITH_AS(routes.add("GET", "sagas"),
                         "the route 'sagas' is malformed: it begins with a slash, as '/sagas'", std::logic_error);
    CHECK_THROWS_AS(routes.add("GET", ""), std::logic_error);
    CHECK_THROWS_AS(routes.add("", "/x"), std::logic_error);
    CHECK_THROWS_AS(routes.add("GET", "/a{b}"), std::logic_error);
    CHECK_THROWS_AS(routes.add("GET", "/{}"), std::logic_error);
    CHECK_THROWS_AS(routes.add("GET", "/sagas/{id}"), std::logic_error);
    CHECK_NOTHROW(routes.add("PUT", "/sagas/{id}"));
}
