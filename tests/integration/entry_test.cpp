// The guard at the HTTP entry, without HTTP: one request, one transaction, one answer for each key.
#include "support/front_door.hpp"
#include "support/session.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <future>
#include <latch>

using namespace skald;
using test::front_door;
using test::post;
using test::text_of;
using test::value_of;

namespace {

void check_replayed_as_given(http::response const& given)
{
    front_door door;
    auto const first = door.answer(post("k"), door.giving(given));
    auto const again = door.answer(post("k"), door.giving(given));
    CHECK(text_of(first) == text_of(given));
    CHECK(text_of(again) == text_of(first));
    CHECK(value_of(again, "Idempotency-Replayed") == "true");
    CHECK(door.runs == 1);
    CHECK(door.effects() == "1");
}

}  // namespace

TEST_CASE("G17: an answer without a body is stored and replayed")
{
    check_replayed_as_given({204, "", {}, ""});
    check_replayed_as_given({202, "", {{"Location", "/sagas/k"}}, ""});
}

TEST_CASE("G17: a body of any bytes is stored and replayed byte for byte")
{
    std::string every_byte;
    for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
    check_replayed_as_given({200, "application/octet-stream", {}, every_byte});
    check_replayed_as_given({200, "text/plain; charset=utf-8", {}, "caf\xc3\xa9 \xff"});
    check_replayed_as_given({200, "application/json", {}, "{\"b\": 1, \"a\": 1.0}"});
}

TEST_CASE("a 4xx is an outcome: what the handler wrote stays, and the answer is replayed")
{
    check_replayed_as_given({404, "application/problem+json", {}, "{\"status\":404}"});
}

TEST_CASE("G17: a handler's headers are sent and replayed, all of them, in their order, to the byte")
{
    check_replayed_as_given({201,
                             "text/plain",
                             {{"X-Own", "1"},
                              {"Link", "</a>; rel=\"a\""},
                              {"Location", "/x"},
                              {"Link", "</b>; rel=\"b\""},
                              {"link", "</c>; rel=\"c\""},
                              {"Set-Cookie", "a=1"},
                              {"Set-Cookie", "b=2"},
                              {"X-Text", "caf\xc3\xa9 \"quoted\" \\xe9"},
                              {"X-Bytes", "caf\xe9 \xff\x80 \xc3"},
                              {"X-Empty", ""},
                              {"X-Long", std::string(70'000, 'x')}},
                             "made"});
}

TEST_CASE("an answer that was stored as an object of headers is replayed")
{
    front_door door;
    auto const handle = door.giving({201, "", {{"Location", "/x"}}, "made"});
    auto const first = door.answer(post("k"), handle);
    door.db.run("UPDATE skald.response SET headers = '{\"Location\": \"/x\"}'");
    CHECK(text_of(door.answer(post("k"), handle)) == text_of(first));
}

TEST_CASE(
    "an answer that says not now or not you leaves nothing and is asked for again, unless it says that it is final")
{
    for (int const status : {401, 403, 408, 409, 425, 429}) {
        CAPTURE(status);
        front_door door;
        CHECK(door.answer(post("k"), door.giving({status, "", {{"Retry-After", "1"}}, "no"})).status == status);
        CHECK(door.records() == "0|0|0|0");
        CHECK(door.effects() == "0");
        CHECK(door.answer(post("k"), door.giving({201, "", {}, "yes"})).body == "yes");
        CHECK(door.effects() == "1");

        http::response final_no{status, "", {}, "no"};
        final_no.is_final = true;
        check_replayed_as_given(final_no);
    }
    for (int const status : {400, 402, 404, 410, 422, 451}) check_replayed_as_given({status, "", {}, "no"});
}

TEST_CASE("a 5xx and an exception leave nothing behind, and the same key may be used again")
{
    front_door door;
    CHECK(door.answer(post("k"), door.giving({503, "", {}, ""})).status == 503);
    CHECK(door.answer(post("k"),
                      [&](http::request_context& ctx) -> http::response {
                          ctx.sql("INSERT INTO effect VALUES (1)");
                          throw std::runtime_error{"password=hidden"};
                      })
              .body.find("hidden") == std::string::npos);
    CHECK(door.records() == "0|0|0|0");
    CHECK(door.effects() == "0");
    CHECK(door.answer(post("k"), door.giving({200, "", {}, ""})).status == 200);
    CHECK(door.effects() == "1");
}

TEST_CASE("G7: a handler whose SQL failed leaves nothing, is answered with 500, and the lane goes on")
{
    front_door door;
    CHECK(door.answer(post("k"),
                      [](http::request_context& ctx) -> http::response {
                          ctx.sql("INSERT INTO effect VALUES (1)");
                          ctx.sql("SELECT 1/0");
                          return {};
                      })
              .status == 500);
    CHECK(door.answer(post("k"),
                      [](http::request_context& ctx) -> http::response {
                          try {
                              ctx.sql("SELECT 1/0");
                          }
                          catch (std::exception const&) {
                          }
                          return {200, "", {}, ""};
                      })
              .status == 500);
    CHECK(door.records() == "0|0|0|0");
    CHECK(door.answer(post("k"), door.giving({200, "", {}, ""})).status == 200);
}

TEST_CASE("a body that does not fit its type is answered with 400 and stores nothing")
{
    front_door door;
    auto const handle = [](http::request_context& ctx) -> http::response {
        ctx.json<order_saga::order>();
        return {200, "", {}, ""};
    };
    for (auto const* body : {"", "nonsense", "[]", "{\"id\":7}", "{\"id\":\"1\",\"id\":\"2\"}"}) {
        CAPTURE(body);
        auto const refused = door.answer(post("k", body), handle);
        CHECK(refused.status == 400);
        CHECK(refused.content_type == "application/problem+json");
    }
    for (auto const& [body, named] : std::vector<std::pair<std::string, std::string>>{
             {"{\"id\":7}", "the body does not fit what is expected here: /id is a number and must be a string"},
             {"null", "the body does not fit what is expected here: it is null and must be an object"},
             {"{\"id\":\"o\",\"customer\":\"ada\",\"sku\":\"tea\",\"quantity\":1.9,\"cents\":1}",
              "/quantity is 1.9, "}}) {
        auto const said = door.answer(post("k", body), handle);
        CHECK(said.status == 400);
        CHECK_MESSAGE(said.body.find(named) != std::string::npos, said.body);
    }
    CHECK(door.records() == "0|0|0|0");
}

TEST_CASE("an answer that could not be sent is not stored either, and nothing happened")
{
    front_door door;
    CHECK(door.answer(post("k"), door.giving({200, "", {{"Location", "/a\r\nSet-Cookie: x=1"}}, ""})).status == 500);
    CHECK(door.records() == "0|0|0|0");
    CHECK(door.effects() == "0");
}

TEST_CASE("another method, route, query, spelling of the path or body under the same key is 422, whatever comes of it")
{
    front_door door;
    auto const handle = door.giving({200, "", {}, ""});
    door.answer(post("k", "{}", "/orders?a=1"), handle);
    auto other_method = post("k", "{}", "/orders?a=1");
    other_method.method = "PUT";
    for (auto const& other : {post("k", "{ }", "/orders?a=1"), post("k", "{}", "/orders?a=2"),
                              post("k", "{}", "/orders"), post("k", "{}", "/order%73?a=1"), other_method}) {
        CAPTURE(other.target);
        CHECK(door.answer(other, handle).status == 422);
    }
    CHECK(door.runs == 1);
    CHECK(door.answer(post("\"k\"", "{}", "/orders?a=1"), handle).status == 200);
    CHECK_MESSAGE(door.runs == 1, "quoted or bare, it is the same key");
}

TEST_CASE("a key under which a saga was started outside of HTTP belongs to no other request")
{
    front_door door;
    door.db.run("INSERT INTO skald.idempotency (scope, key, step, status, fingerprint)"
                " VALUES ('', 'k', '', 'completed', sha256('a start'))");
    auto const heard = door.answer(post("k"), door.giving({202, "", {}, ""}));
    CHECK(heard.status == 409);
    CHECK_MESSAGE(heard.body.find("/problems/key-used-elsewhere") != std::string::npos, heard.body);
    CHECK(door.effects() == "0");
}

TEST_CASE("the same key in two scopes is two requests")
{
    front_door door;
    auto const handle = door.giving({200, "", {}, ""});
    door.answer(post("k"), handle, "a");
    door.answer(post("k"), handle, "b");
    CHECK(door.runs == 2);
}

TEST_CASE("G4: a request whose key is being served is answered with 409 from the lock, before the first one ends")
{
    front_door door;
    std::latch inside{1}, may_end{1};
    auto first = std::async(std::launch::async, [&] {
        return door.answer(post("k"), [&](http::request_context&) -> http::response {
            inside.count_down();
            may_end.wait();
            return {200, "text/plain", {}, "done"};
        });
    });
    inside.wait();
    auto const meanwhile = door.answer_apart(post("k"), door.giving({200, "", {}, ""}));
    CHECK(meanwhile.status == 409);
    CHECK(!value_of(meanwhile, "Retry-After").empty());
    CHECK(door.records() == "0|0|0|0");
    may_end.count_down();
    CHECK(first.get().status == 200);
    CHECK(door.runs == 0);
    CHECK(door.answer_apart(post("k"), door.giving({200, "", {}, ""})).body == "done");
}

TEST_CASE("G18: no answer is given before its COMMIT: where that fails, the client hears 500 and never the answer")
{
    front_door door;
    door.db.run("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES parent DEFERRABLE "
                "INITIALLY DEFERRED)");
    auto const refused = door.answer(post("k"), [](http::request_context& ctx) -> http::response {
        ctx.sql("INSERT INTO child VALUES (1)");
        return {202, "text/plain", {}, "accepted"};
    });
    CHECK(refused.status == 500);
    CHECK(refused.body.find("accepted") == std::string::npos);
    CHECK(door.records() == "0|0|0|0");
}

TEST_CASE("a claim that waited for something else than its key is not told to be in flight")
{
    front_door door;
    door.store.connect();
    test::session other{door.db};
    other.run("BEGIN; LOCK TABLE skald.idempotency IN EXCLUSIVE MODE");
    door.store.after_begin = [&] { other.run("COMMIT"); };
    auto const heard = door.answer(post("k"), door.giving({202, "text/plain", {}, "accepted"}));
    CHECK_MESSAGE(heard.status == 202, heard.body);
    CHECK(door.effects() == "1");
}

TEST_CASE("G10, G18: a COMMIT in doubt is asked for through the guard: one effect, and the client hears what is true")
{
    for (auto const loss : {test::doubtful_store::loses::the_answer, test::doubtful_store::loses::the_commit}) {
        front_door door;
        door.store.next = loss;
        auto const handle = door.giving({202, "text/plain", {}, "accepted"});
        auto const heard = door.answer(post("k"), handle);
        CHECK(heard.status == 202);
        CHECK(heard.body == "accepted");
        CHECK(door.effects() == "1");
        CHECK(text_of(door.answer(post("k"), handle)) == text_of(heard));
        CHECK(door.effects() == "1");
    }
}

TEST_CASE(
    "a COMMIT that stays in doubt is told as unknown, with when to ask again, and then the same key hears the truth")
{
    front_door door;
    auto const unknown = door.answer(post("k"), [&](http::request_context& ctx) -> http::response {
        door.store.next = test::doubtful_store::loses::the_commit;  // each time it is tried
        ctx.sql("INSERT INTO effect VALUES (1)");
        return {202, "text/plain", {}, "accepted"};
    });
    CHECK(unknown.status == 503);
    CHECK(!value_of(unknown, "Retry-After").empty());
    CHECK(unknown.body.find("/problems/outcome-unknown") != std::string::npos);
    CHECK(unknown.body.find("accepted") == std::string::npos);

    auto const handle = door.giving({202, "text/plain", {}, "accepted"});
    CHECK(door.answer(post("k"), handle).body == "accepted");
    CHECK(value_of(door.answer(post("k"), handle), "Idempotency-Replayed") == "true");
    CHECK(door.effects() == "1");
}

TEST_CASE(
    "a COMMIT in doubt of a request without a key is resolved by the key that Skald gave it, or reported as unknown")
{
    for (auto const loss : {test::doubtful_store::loses::the_answer, test::doubtful_store::loses::the_commit}) {
        front_door door;
        auto keyless = post("");
        keyless.headers.clear();
        door.key = http::idempotency::optional;
        door.store.next = loss;
        CHECK(door.answer(keyless, door.giving({202, "", {}, ""})).status == 202);
        CHECK(door.effects() == "1");

        door.key = http::idempotency::off;
        door.store.next = loss;
        auto const tried_again = door.log.count("entry.tried_again");
        auto const unknown = door.answer(keyless, door.giving({202, "", {}, ""}));
        CHECK(unknown.status == 503);
        CHECK(unknown.body.find("/problems/outcome-unknown-no-key") != std::string::npos);
        CHECK(unknown.body.find("same key") == std::string::npos);
        CHECK_MESSAGE(value_of(unknown, "Retry-After").empty(), "it would be done again");
        CHECK_MESSAGE(door.log.count("entry.tried_again") == tried_again, "nothing was tried again");
        CHECK_MESSAGE(door.effects() == (loss == test::doubtful_store::loses::the_answer ? "2" : "1"), "never twice");
    }
}

TEST_CASE("a saga that a handler starts exists with its first step, its answer and its next message, or not at all")
{
    struct create final : compensatable_step<order_saga::order>
    {
        outcome execute(step_context& ctx, order_saga::order& o) const override
        {
            ctx.sql("INSERT INTO effect VALUES (1)");
            if (o.quantity > 5) return reject("too many");
            o.cents *= 2;
            return done();
        }
        void compensate(step_context&, order_saga::order&) const override {}
    };
    front_door door;
    auto const start = [](http::request_context& ctx) {
        auto const ended = ctx.start(order_saga::place_order, create{}, ctx.json<order_saga::order>());
        return ended.is_done() ? http::response{202, "", {}, ""}
                               : http::problem_response(422, ended.rejected()->reason);
    };
    auto const order = [](int quantity) {
        return nlohmann::json(order_saga::order{"o", "ann", "pen", quantity, 100}).dump();
    };
    CHECK(door.answer(post("good", order(1)), start).status == 202);
    CHECK(door.effects() == "1");
    CHECK(door.records() == "2|1|1|1");
    CHECK(door.db.one("SELECT convert_from(payload, 'UTF8')::jsonb->>'cents' FROM skald.outbox") == "200");

    auto const refused = door.answer(post("bad", order(6)), start);
    CHECK(refused.status == 422);
    CHECK(text_of(door.answer(post("bad", order(6)), start)) == text_of(refused));
    CHECK_MESSAGE(door.effects() == "1", "nothing of a refused first step remains");
    CHECK_MESSAGE(door.records() == "3|2|1|1", "but the refusal is the outcome, and is stored");
}

TEST_CASE("a handler that goes on as if a refused first step had run is told so, and nothing is stored")
{
    struct picky final : compensatable_step<order_saga::order>
    {
        outcome execute(step_context&, order_saga::order& o) const override
        {
            return o.quantity > 5 ? outcome{reject("too many")} : outcome{done()};
        }
        void compensate(step_context&, order_saga::order&) const override {}
    };
    front_door door;
    auto const begin = [](http::request_context& ctx, int quantity) {
        return ctx.start(order_saga::place_order, picky{}, order_saga::order{"o", "ann", "pen", quantity, 100});
    };
    auto const unheeded = [&](http::request_context& ctx) {
        static_cast<void>(begin(ctx, 6));
        return http::response{202, "", {}, ""};
    };
    auto const second = [&](http::request_context& ctx) {
        if (!begin(ctx, 6).is_done()) static_cast<void>(begin(ctx, 1));
        return http::problem_response(422, "too many");
    };
    CHECK(door.answer(post("unheeded"), unheeded).status == 500);
    CHECK(door.answer(post("second"), second).status == 500);
    CHECK(door.records() == "0|0|0|0");
}

TEST_CASE("a handler that starts two sagas under one key is told so, and nothing happens")
{
    front_door door;
    CHECK(door.answer(post("k"),
                      [](http::request_context& ctx) -> http::response {
                          ctx.start(order_saga::place_order, order_saga::order{});
                          ctx.start(order_saga::place_order, order_saga::order{});
                          return {202, "", {}, ""};
                      })
              .status == 500);
    CHECK(door.records() == "0|0|0|0");
}
