#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "http/problem.hpp"

using namespace skald::http;
using nlohmann::json;

TEST_CASE("a problem says its type, title, status and detail")
{
    auto const answer = problem(problem_type::key_reused, "See order-42.");
    CHECK(answer.status == 422);
    CHECK(answer.content_type == "application/problem+json");
    CHECK(json::parse(answer.body) == json{{"type", "/problems/key-reused"},
                                           {"title", "The Idempotency-Key belongs to another request"},
                                           {"status", 422},
                                           {"detail", "See order-42."}});
}

TEST_CASE("a problem that its status explains has the type about:blank and the status's words")
{
    CHECK(json::parse(problem(404, "No such saga.").body) ==
          json{{"type", "about:blank"}, {"title", "Not Found"}, {"status", 404}, {"detail", "No such saga."}});
    CHECK_FALSE(json::parse(problem(404, "").body).contains("detail"));
}

TEST_CASE("a problem is JSON whatever bytes its detail has")
{
    std::string every;
    for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
    for (std::string const& detail :
         {every, std::string{"\xff\xfe"}, std::string{"cut \xe2\x82"}, std::string{"a\"b\\\n"}}) {
        auto const answer = problem(400, detail);
        REQUIRE(json::accept(answer.body));
        CHECK(json::parse(answer.body)["detail"].is_string());
        CHECK(answer.body.find('\n') == std::string::npos);
    }
}

TEST_CASE("Retry-After is whole seconds and never zero")
{
    using namespace std::chrono_literals;
    CHECK(with_retry_after(problem(503, ""), 7s).headers == header_list{{"Retry-After", "7"}});
    CHECK(with_retry_after(problem(503, ""), 0s).headers == header_list{{"Retry-After", "1"}});
    CHECK(with_retry_after(problem(503, ""), -3s).headers == header_list{{"Retry-After", "1"}});
}
