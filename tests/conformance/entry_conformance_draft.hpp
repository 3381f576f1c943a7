// draft-ietf-httpapi-idempotency-key-header-07, section by section: what it says, in its words, and what a service
// answers, whichever server is in front.
#pragma once

#include "http/problem_types.hpp"
#include "support/held_handler.hpp"
#include "support/live_entry.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace skald::test {

using http::idempotency;

inline constexpr char const* uuid = "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

/// POST /orders leaves an effect; /refused answers 404, /fails 500 after it; /held stays until it is let out.
template <class Server>
struct draft_service
{
    ~draft_service() { held.let_out(); }

    test::raw_answer post(std::string const& path, std::string const& key, std::string const& body = "{}",
                          std::string const& more = {}) const
    {
        return web.ask("POST", path, "Idempotency-Key: " + key + "\r\n" + more, body);
    }
    long effects() const { return std::stol(web.db.one("SELECT count(*) FROM effect")); }

    static http::entry_handler answering(int status)
    {
        return [status](http::request_context& ctx) {
            ctx.sql("INSERT INTO effect VALUES ('x')");
            return http::json_response(status, {{"key", ctx.key()}});
        };
    }

    held_handler held;
    live_entry_on<Server> web{
        {{"POST", "/orders", idempotency::required, leaving("x")},
         {"POST", "/refused", idempotency::required, answering(404)},
         {"POST", "/fails", idempotency::required, answering(500)},
         {"POST", "/held", idempotency::required, [this](http::request_context& ctx) { return held(ctx); }}},
        http::scope_from_header("X-Scope", http::scope_header::optional)};
};

/// The documentation that a problem's type is a link to.
template <class Server>
void check_link(draft_service<Server> const& s, test::raw_answer const& answer)
{
    CHECK(answer.value_of("Content-Type") == "application/problem+json");
    auto const problem = nlohmann::json::parse(answer.body);
    auto const linked = s.web.ask("GET", problem["type"].get<std::string>());
    CHECK(linked.status == 200);
    CHECK(linked.body.find(problem["title"].get<std::string>()) != std::string::npos);
}

template <class Server>
struct sentence
{
    char const* section;
    char const* says;
    void (*holds)(draft_service<Server>&);
};

template <class Server>
void check(std::vector<sentence<Server>> const& sentences)
{
    for (auto const& s : sentences) {
        CAPTURE(s.section);
        CAPTURE(s.says);
        draft_service<Server> fresh;
        s.holds(fresh);
    }
}

TEST_CASE_TEMPLATE_DEFINE("draft 07, 2.1 to 2.5: a key is one string, and stands for one request", Server,
                          entry_draft_keys)
{
    check<Server>({
        {"2.1", "Its value MUST be a String",
         [](draft_service<Server>& s) {
             CHECK(s.post("/orders", uuid).status == 201);
             for (auto const* malformed : {"\"open", "\"a\", \"b\"", "\"caf\xc3\xa9\"", "\"a\\b\"", "\"\"", "?1, ?0"})
                 CHECK(s.post("/orders", malformed).status == 400);
             CHECK(s.effects() == 1);
         }},
        {"2.1", "Idempotency-Key is an Item Structured Header: two of them are no Item (RFC 8941, 4.2)",
         [](draft_service<Server>& s) {
             auto const twice = s.post("/orders", uuid, "{}", "Idempotency-Key: \"other\"\r\n");
             CHECK(twice.status == 400);
             CHECK(nlohmann::json::parse(twice.body)["type"] == "/problems/idempotency-key");
             CHECK(s.effects() == 0);
         }},
        {"2.2", "MUST NOT be reused with another request with a different request payload",
         [](draft_service<Server>& s) {
             CHECK(s.post("/orders", uuid, "{\"n\":1}").status == 201);
             CHECK(s.post("/orders", uuid, "{\"n\":2}").status == 422);
             CHECK(s.effects() == 1);
         }},
        {"2.2", "It is RECOMMENDED that a UUID or a similar random identifier be used",
         [](draft_service<Server>& s) {
             CHECK(s.post("/orders", uuid).status == 201);
             CHECK(s.post("/orders", "\"clkyoesmbgybucifusbbtdsbohtyuuwz\"").status == 201);
             CHECK(s.effects() == 2);
         }},
        {"2.3", "The resource SHOULD define such expiration policy and publish it in the documentation",
         [](draft_service<Server>& s) {
             auto const published = s.web.ask("GET", "/problems/idempotency-key").body;
             CHECK(published.find("for " + std::to_string(config{}.retention_days) + " days") != std::string::npos);
             CHECK(published.find("180 bytes") != std::string::npos);  // 2.5.2: MUST publish a specification
         }},
        {"2.4", "Checksum of the entire request payload",
         [](draft_service<Server>& s) {
             CHECK(s.post("/orders", uuid, "{\"n\": 1}").status == 201);
             CHECK(s.post("/orders", uuid, "{\"n\":1}").status == 422);
         }},
        {"2.5", "Identify idempotency key from the HTTP Idempotency-Key request header field",
         [](draft_service<Server>& s) {
             auto const first = s.web.ask("POST", "/orders", std::string{"iDEMPOTENCY-kEY:  "} + uuid + " \r\n", "{}");
             CHECK(nlohmann::json::parse(first.body)["key"] == "8e03978e-40d5-43e8-bc93-6894a57f9324");
             CHECK(s.post("/orders", uuid).value_of("Idempotency-Replayed") == "true");
         }},
    });
}

TEST_CASE_TEMPLATE_DEFINE(
    "draft 07, 2.6: a first request is done, a retried one is replayed, a concurrent one is refused", Server,
    entry_draft_retries)
{
    check<Server>({
        {"2.6", "First time request: The resource SHOULD process the request normally and respond",
         [](draft_service<Server>& s) {
             auto const first = s.post("/orders", uuid);
             CHECK(first.status == 201);
             CHECK(first.value_of("Idempotency-Replayed").empty());
             CHECK(s.effects() == 1);
         }},
        {"2.6", "The resource SHOULD respond with the result of the previously completed operation, success",
         [](draft_service<Server>& s) {
             auto const first = s.post("/orders", uuid);
             auto const retried = s.post("/orders", uuid);
             CHECK(retried.status == first.status);
             CHECK(retried.body == first.body);
             CHECK(s.effects() == 1);
         }},
        {"2.6", "or an error",
         [](draft_service<Server>& s) {
             CHECK(s.post("/refused", uuid).status == 404);
             CHECK(s.post("/refused", uuid).status == 404);
             CHECK(s.effects() == 1);
         }},
        {"2.6", "Concurrent Request: The resource SHOULD respond with a resource conflict error",
         [](draft_service<Server>& s) {
             auto first = s.web.connect();
             first.send(live_entry::text("POST", "/held", std::string{"Idempotency-Key: "} + uuid + "\r\n", "{}"));
             s.held.wait_until_inside();
             CHECK(s.post("/held", uuid).status == 409);
             s.held.let_out();
             CHECK(first.read_answer().status == 201);
             CHECK(s.held.runs == 1);
         }},
    });
}

TEST_CASE_TEMPLATE_DEFINE("draft 07, 2.7: each error has its status and leads to what the client can do", Server,
                          entry_draft_errors)
{
    check<Server>({
        {"2.7", "is missing for a documented idempotent operation: 400 with body containing a link",
         [](draft_service<Server>& s) {
             auto const refused = s.web.ask("POST", "/orders", "", "{}");
             CHECK(refused.status == 400);
             check_link(s, refused);
             CHECK(s.effects() == 0);
         }},
        {"2.7", "an attempt to reuse an idempotency key with a different request payload: 422",
         [](draft_service<Server>& s) {
             s.post("/orders", uuid);
             auto const refused = s.post("/orders", uuid, "[]");
             CHECK(refused.status == 422);
             check_link(s, refused);
         }},
        {"2.7", "retried, while the original request is still being processed: 409; no correction is required",
         [](draft_service<Server>& s) {
             auto first = s.web.connect();
             first.send(live_entry::text("POST", "/held", std::string{"Idempotency-Key: "} + uuid + "\r\n", "{}"));
             s.held.wait_until_inside();
             auto const refused = s.post("/held", uuid);
             CHECK(refused.status == 409);
             CHECK(!refused.value_of("Retry-After").empty());
             check_link(s, refused);
             s.held.let_out();
             CHECK(s.post("/held", uuid, "{}", "Prefer: wait=25\r\n").status == 201);
             CHECK(first.read_answer().status == 201);
         }},
        {"2.7", "Clients MUST correct the requests before a retry operation, or the resource MUST fail the request",
         [](draft_service<Server>& s) {
             for (int i = 0; i < 2; ++i) CHECK(s.post("/orders", "\"open").status == 400);
             CHECK(s.post("/orders", uuid).status == 201);
             for (int i = 0; i < 2; ++i) CHECK(s.post("/orders", uuid, "[]").status == 422);
             CHECK(s.post("/orders", "\"another\"", "[]").status == 201);
             CHECK(s.effects() == 2);
         }},
        {"2.7", "For other 4xx/5xx errors, follow the documentation: a 5xx has no effect and may be retried",
         [](draft_service<Server>& s) {
             CHECK(s.post("/fails", uuid).status == 500);
             CHECK(s.effects() == 0);
             auto const retried = s.post("/fails", uuid);
             CHECK(retried.status == 500);
             CHECK(retried.value_of("Idempotency-Replayed").empty());
             CHECK(s.post("/orders", uuid).status == 201);
         }},
    });
}

TEST_CASE_TEMPLATE_DEFINE("draft 07, security: keys are checked, and belong to somebody", Server, entry_draft_security)
{
    check<Server>({
        {"5", "Always validate the key as per its published specification before processing any request",
         [](draft_service<Server>& s) {
             for (auto const& key : {std::string(181, 'k'), std::string{"\"a\" b"}, std::string{"a b"}})
                 CHECK(problem_of(s.post("/held", key)) == "idempotency-key");
             CHECK(s.held.runs == 0);
         }},
        {"5", "implement a unique composite key as the idempotent cache lookup key",
         [](draft_service<Server>& s) {
             auto const one = s.post("/orders", uuid, "{}", "X-Scope: one\r\n");
             auto const two = s.post("/orders", uuid, "[]", "X-Scope: two\r\n");
             CHECK(one.status == 201);
             CHECK(two.status == 201);
             CHECK(two.value_of("Idempotency-Replayed").empty());
             CHECK(s.effects() == 2);
         }},
        {"5", "Injection attacks",
         [](draft_service<Server>& s) {
             CHECK(s.post("/orders", "\"'); DROP TABLE effect; --\"").status == 201);
             CHECK(s.post("/orders", "\"'); DROP TABLE effect; --\"").value_of("Idempotency-Replayed") == "true");
             CHECK(s.effects() == 1);
         }},
    });
}

TEST_CASE_TEMPLATE_DEFINE("every type of problem leads to what to do about it, and no other path below does", Server,
                          entry_problem_types)
{
    draft_service<Server> s;
    for (auto const& kind : http::problem_kinds) {
        auto const page = s.web.ask("GET", "/problems/" + std::string{kind.name});
        CHECK(page.status == 200);
        CHECK(page.body.find(kind.remedy) != std::string::npos);
    }
    CHECK(s.web.ask("GET", "/problems/nothing").status == 404);
    CHECK(s.web.ask("GET", "/problems/").status == 404);
    CHECK(s.web.ask("POST", "/problems/body").status == 405);
}

}  // namespace skald::test
