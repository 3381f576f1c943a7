// Whose request it is, and which routes a service takes: errors of the program come before anything runs.
#include "support/complaint.hpp"

#include <skald/errors.hpp>
#include <skald/service.hpp>

#include <doctest/doctest.h>

using namespace skald;
using http::idempotency;

namespace {

http::response nothing(http::request_context&)
{
    return {204, "", {}, ""};
}

}  // namespace

TEST_CASE("a token that no header can carry is an error of the program, and is not told")
{
    for (std::string const token : {"", "=", "two words", "caf\xc3\xa9", "comma,token", "a=b"}) {
        auto const said = test::complaint_about([&] { http::scope_from_bearer({{token, "a"}, {"good", "b"}}); });
        CHECK_MESSAGE(said != "", token);
        if (token.size() > 1) CHECK_FALSE(test::contains(said, token));
    }
}

TEST_CASE("secrets are the same where every byte and the length are")
{
    CHECK(http::is_same_secret("", ""));
    CHECK(http::is_same_secret("token", "token"));
    for (std::string const other : {"", "tokeN", "Token", "token ", "toke"})
        CHECK_FALSE(http::is_same_secret("token", other));
    CHECK_FALSE(http::is_same_secret(std::string("a\0b", 3), std::string("a\0c", 3)));
}

TEST_CASE("a route that can't be served is refused where it is added")
{
    service s{"orders"};
    s.post("/orders/{id}", nothing).get("/orders/{id}", nothing);
    CHECK_THROWS_AS(s.route("", "/x", idempotency::off, nothing), configuration_error);
    CHECK_THROWS_AS(s.route("post", "/x", idempotency::off, nothing), configuration_error);
    CHECK_THROWS_AS(s.route("PO ST", "/x", idempotency::off, nothing), configuration_error);
    CHECK_THROWS_AS(s.route("POST", "x", idempotency::off, nothing), configuration_error);
    CHECK_THROWS_AS(s.route("POST", "/a{b}", idempotency::off, nothing), configuration_error);
    CHECK_THROWS_AS(s.route("POST", "/x", idempotency::off, {}), configuration_error);
    CHECK_THROWS_AS(s.post("/orders/{other}", nothing), configuration_error);
    for (auto const* own : {"/sagas/{id}", "/readyz", "/livez", "/problems/{any}"})
        CHECK_THROWS_AS(s.get(own, nothing), configuration_error);
    CHECK_NOTHROW(s.post("/sagas/{id}", nothing));
    CHECK_NOTHROW(s.get("/sagas", nothing));
}
