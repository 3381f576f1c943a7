// Duplicates of a running request on a real port and a real database: who is told at once, who
// waits, and who is held up.
#include "support/live_entry.hpp"

#include "support/guarded.hpp"
#include "support/held_handler.hpp"

#include <doctest/doctest.h>

#include <future>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using http::idempotency;

namespace {

std::string const key = "Idempotency-Key: k\r\n";

config with_lanes(std::size_t lanes, std::chrono::seconds wait_max = 30s)
{
    config c;
    c.http_lanes = lanes;
    c.http_wait_max = wait_max;
    return c;
}

/// One route that is held, one that is not.
struct held_web
{
    explicit held_web(config c = with_lanes(2))
        : web{{{"POST", "/held", idempotency::required, [this](http::request_context& ctx) { return held(ctx); }},
               {"POST", "/quick", idempotency::required, leaving("quick")}},
              http::scope_from_header("X-Scope", http::scope_header::optional),
              std::move(c)},
          first{web.connect()}
    {
        first.send(live_entry::text("POST", "/held", key, "{}"));
        held.wait_until_inside();
    }
    // A test that failed half-way must not leave the handler inside.
    ~held_web() { held.let_out(); }

    test::raw_client send(std::string const& fields, std::string const& body = "{}") const
    {
        auto client = web.connect();
        client.send(live_entry::text("POST", "/held", key + fields, body));
        return client;
    }

    held_handler held;
    live_entry web;
    test::raw_client first;
};

}  // namespace

TEST_CASE("a duplicate of a running request is told 409 at once, and another body under its key 422")
{
    held_web h;
    auto const duplicate = h.send("").read_answer();
    CHECK(duplicate.status == 409);
    CHECK(problem_of(duplicate) == "in-flight");
    CHECK(duplicate.value_of("Retry-After") == "1");
    CHECK(duplicate.value_of("Preference-Applied").empty());
    auto const other = h.send("Prefer: wait=20\r\n", "{ }").read_answer();
    CHECK(other.status == 422);
    CHECK(problem_of(other) == "key-reused");
    CHECK_MESSAGE(h.web.ask("POST", "/quick", key + "X-Scope: b\r\n").status == 201,
                  "another scope's key is another key");

    h.held.let_out();
    CHECK(h.first.read_answer().status == 201);
    CHECK(h.send("").read_answer().value_of("Idempotency-Replayed") == "true");
    CHECK(h.send("", "{ }").read_answer().status == 422);
    CHECK(h.held.runs == 1);
}

TEST_CASE("a duplicate is told at once although every lane waits for something, and so is what needs no lane")
{
    held_web h{with_lanes(1)};
    auto queued = h.web.connect();
    queued.send(live_entry::text("POST", "/quick", "Idempotency-Key: q\r\n"));
    CHECK(h.send("").read_answer().status == 409);
    CHECK(h.send("", "{ }").read_answer().status == 422);
    CHECK(h.web.ask("POST", "/quick").status == 400);
    CHECK(h.web.ask("POST", "/nothing").status == 404);
    CHECK(h.web.ask("POST", "/quick", key + "X-Scope: a\r\nX-Scope: b\r\n").status == 400);
    auto waiter = h.send("Prefer: wait=25\r\n");
    CHECK(h.send("").read_answer().status == 409);
    h.held.let_out();
    CHECK(h.first.read_answer().status == 201);
    CHECK(queued.read_answer().status == 201);
    CHECK(waiter.read_answer().value_of("Idempotency-Replayed") == "true");
    CHECK(h.held.runs == 1);
}

TEST_CASE("who prefers to wait hears the first's answer, and however many wait, others are served meanwhile")
{
    held_web h;  // one of two lanes is held
    std::vector<test::raw_client> waiters;
    for (int i = 0; i < 40; ++i) waiters.push_back(h.send("Prefer: respond-async, wait=25\r\n"));
    for (int i = 0; i < 20; ++i)
        CHECK(h.web.ask("POST", "/quick", "Idempotency-Key: q" + std::to_string(i) + "\r\n").status == 201);
    h.held.let_out();
    auto const original = h.first.read_answer();
    CHECK(original.status == 201);
    for (auto& waiter : waiters) {
        auto const heard = waiter.read_answer();
        CHECK(heard.status == 201);
        CHECK(heard.body == original.body);
        CHECK(heard.value_of("Idempotency-Replayed") == "true");
        CHECK(heard.value_of("Preference-Applied") == "wait=25");
    }
    CHECK(h.held.runs == 1);
    CHECK(h.web.db.one("SELECT count(*) FROM effect WHERE what = 'held'") == "1");
}

TEST_CASE("a wait ends with 409 where the first still runs, and lasts no longer than it may")
{
    held_web h{with_lanes(2, 1s)};
    auto const heard = h.send("Prefer: wait=500\r\n").read_answer();
    CHECK(heard.status == 409);
    CHECK(heard.value_of("Retry-After") == "1");
    CHECK(heard.value_of("Preference-Applied") == "wait=1");
    for (auto const* fields : {"Prefer: wait=0\r\n", "Prefer: wait=soon\r\n", "Prefer: respond-async\r\n"})
        CHECK(h.send(fields).read_answer().value_of("Preference-Applied").empty());
}

TEST_CASE("where waiting is off, a duplicate is told 409 at once whatever it prefers")
{
    held_web h{with_lanes(2, 0s)};
    auto const heard = h.send("Prefer: wait=20\r\n").read_answer();
    CHECK(heard.status == 409);
    CHECK(heard.value_of("Preference-Applied").empty());
}

TEST_CASE("a duplicate that waits for a request that fails is done in its place")
{
    held_web h;
    h.held.status = 500;
    auto waiter = h.send("Prefer: wait=25\r\n");
    CHECK(h.send("").read_answer().status == 409);  // so that the waiter has been looked at before
    h.held.let_out();
    CHECK(h.first.read_answer().status == 500);
    auto const heard = waiter.read_answer();
    CHECK(heard.status == 201);
    CHECK(heard.value_of("Idempotency-Replayed").empty());
    CHECK(h.held.runs == 2);
    CHECK(h.web.db.one("SELECT count(*) FROM effect WHERE what = 'held'") == "1");
}

TEST_CASE("a duplicate waits for a request of another process too")
{
    live_entry web{{{"POST", "/held", idempotency::required, leaving("held")}}, {}, with_lanes(1)};
    held_handler held;
    auto elsewhere = std::async(std::launch::async, [&] {
        postgres::postgres_store store{{.url = web.db.url()}};
        entry_detail::known_requests known;
        entry_detail::request_guard guard{"orders", store, known, web.backlog, web.out, web.log};
        http::request r;
        r.method = "POST";
        r.target = r.path = "/held";
        r.headers = {{"Idempotency-Key", "k"}};
        return respond_by(guard, known, r, {"POST", "/held", idempotency::required, std::ref(held)});
    });
    held.wait_until_inside();
    auto waiter = web.connect();
    waiter.send(live_entry::text("POST", "/held", key + "Prefer: wait=25\r\n"));
    CHECK(web.ask("POST", "/held", key).status == 409);  // on the only lane, which the waiter does not hold
    held.let_out();
    CHECK(elsewhere.get().status == 201);
    auto const heard = waiter.read_answer();
    CHECK(heard.status == 201);
    CHECK(heard.body == "made");
    CHECK(heard.value_of("Idempotency-Replayed") == "true");
    CHECK(web.effects() == "held");
}

TEST_CASE("a drain tells who waits how it stands, and does not wait for them")
{
    held_web h;
    auto waiter = h.send("Prefer: wait=25\r\n");
    CHECK(h.send("").read_answer().status == 409);  // so that the waiter was read
    auto drained = std::async(std::launch::async, [&] { return h.web.server->drain(30s); });
    auto const heard = waiter.read_answer();  // the first is held still
    CHECK(heard.status == 409);
    CHECK(heard.value_of("Connection") == "close");
    h.held.let_out();
    CHECK(h.first.read_answer().status == 201);
    CHECK(drained.get());
}

TEST_CASE("clients that leave while they wait do no harm")
{
    held_web h;
    for (int i = 0; i < 10; ++i) {
        auto waiter = h.send("Prefer: wait=25\r\n");
        CHECK(h.send("").read_answer().status == 409);
        if (i % 2 == 0) waiter.reset();
    }
    h.held.let_out();
    CHECK(h.first.read_answer().status == 201);
    CHECK(h.web.ask("POST", "/quick", "Idempotency-Key: q\r\n").status == 201);
    CHECK(h.web.server->drain(30s));
    CHECK(h.held.runs == 1);
}
