// What the entry says of a request whose key another took meanwhile, or of which it does not know what became: no more
// than it knows.
#include "support/front_door.hpp"
#include "support/required.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <skald/errors.hpp>
#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <future>
#include <latch>

using namespace skald;
using test::doubtful_store;
using test::front_door;
using test::post;
using test::respond_by;
using test::text_of;
using test::value_of;

namespace {

struct refusing final : compensatable_step<order_saga::order>
{
    outcome execute(step_context&, order_saga::order&) const override { return reject("no money"); }
    void compensate(step_context&, order_saga::order&) const override {}
};

/// A handler whose first step says no; `then` happens when what it wrote is rolled back.
http::entry_handler refused(doubtful_store& store, std::function<void()> then)
{
    return [&store, then = std::move(then)](http::request_context& ctx) {
        CHECK(ctx.start(order_saga::place_order, refusing{}, order_saga::order{}).rejected() != nullptr);
        store.after_rollback = then;
        return http::problem_response(422, "no money");
    };
}

bool is_problem(http::response const& answer, std::string const& type)
{
    return answer.body.find("/problems/" + type + '"') != std::string::npos;
}

/// Nobody gets into the database while it lives, and whoever was there is thrown out.
class locked_out
{
public:
    explicit locked_out(std::string name) : name_{std::move(name)}
    {
        run("ALTER DATABASE " + name_ + " ALLOW_CONNECTIONS false");
        run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + name_ + '\'');
    }
    ~locked_out() { run("ALTER DATABASE " + name_ + " ALLOW_CONNECTIONS true"); }
    locked_out(locked_out const&) = delete;
    locked_out& operator=(locked_out const&) = delete;

private:
    static void run(std::string const& sql)
    {
        pqxx::connection c{test::required("DATABASE_URL")};
        pqxx::nontransaction{c}.exec(sql);
    }

    std::string const name_;
};

}  // namespace

TEST_CASE("a key that a twin has taken after a first step's no is in flight, and then the twin's answer is heard")
{
    front_door door;
    doubtful_store store{door.db.url(), std::chrono::milliseconds{50}};
    entry_detail::known_requests known;
    runtime::backlog backlog;
    runtime::memory_source out;
    core::silent_logger log;
    entry_detail::request_guard guard{"orders", store, known, backlog, out, log};

    std::latch inside{1}, may_end{1};
    std::future<http::response> twin;
    auto const second = [&](http::request_context&) -> http::response {
        inside.count_down();
        may_end.wait();
        return {202, "text/plain", {}, "accepted"};
    };
    auto const handle = refused(store, [&] {
        twin = std::async(std::launch::async, [&] { return door.answer_apart(post("k"), second); });
        inside.wait();
    });
    auto const heard = respond_by(guard, known, post("k"), door.route(handle));
    may_end.count_down();
    CHECK(twin.get().status == 202);
    CHECK(heard.status == 409);
    CHECK_MESSAGE(is_problem(heard, "in-flight"), heard.body);
    CHECK(!value_of(heard, "Retry-After").empty());
    CHECK(respond_by(guard, known, post("k"), door.route(handle)).body == "accepted");
}

TEST_CASE(
    "a key that another request has taken after a first step's no is that request's, and a twin's answer is replayed")
{
    for (bool const is_twin : {false, true}) {
        CAPTURE(is_twin);
        front_door door;
        auto const other = post("k", is_twin ? "{}" : "[]");
        auto const heard = door.answer(post("k"), refused(door.store, [&] {
                                           door.answer_apart(other, door.giving({202, "", {}, "accepted"}));
                                       }));
        CHECK(heard.status == (is_twin ? 202 : 422));
        CHECK_MESSAGE((is_twin ? heard.body == "accepted" : is_problem(heard, "key-reused")), heard.body);
        CHECK(door.effects() == "1");
    }
}

TEST_CASE(
    "after a COMMIT in doubt nobody hears that nothing was done, whatever breaks then, and the same key finds out")
{
    for (auto const loss : {doubtful_store::loses::the_answer, doubtful_store::loses::the_commit}) {
        front_door door;
        auto const handle = door.giving({202, "", {}, "accepted"});
        door.store.next = loss;
        door.store.after_loss = [&] { door.db.run("ALTER TABLE skald.response RENAME TO renamed"); };
        auto const unknown = door.answer(post("k"), handle);
        door.db.run("ALTER TABLE skald.renamed RENAME TO response");
        CHECK(unknown.status == 503);
        CHECK_MESSAGE(is_problem(unknown, "outcome-unknown"), unknown.body);
        CHECK(!value_of(unknown, "Retry-After").empty());
        // The connection that met it is made anew, a moment later.
        CHECK(testing::wait_until([&] { return door.answer(post("k"), handle).body == "accepted"; }));
        CHECK(door.effects() == "1");
    }
}

TEST_CASE("after a COMMIT in doubt a database that is away is an unknown outcome, and without a doubt it is just away")
{
    front_door door;
    auto const name = door.db.one("SELECT current_database()");
    auto const handle = door.giving({202, "", {}, "accepted"});
    {
        std::optional<locked_out> out;
        door.store.next = doubtful_store::loses::the_answer;
        door.store.after_loss = [&] { out.emplace(name); };
        auto const unknown = door.answer(post("k"), handle);
        CHECK(unknown.status == 503);
        CHECK_MESSAGE(is_problem(unknown, "outcome-unknown"), unknown.body);
        CHECK_MESSAGE(is_problem(door.answer(post("other"), handle), "unavailable"), "nothing of it has begun");
    }
    CHECK(door.answer_apart(post("k"), handle).body == "accepted");
    CHECK(door.effects() == "1");
}

TEST_CASE("a stored answer that can't be read now is an unknown outcome: nobody hears that nothing was done")
{
    front_door door;
    auto const large = door.giving({201, "", {}, std::string(100'000, 'x')});
    REQUIRE(door.answer(post("k"), large).status == 201);
    door.store.has_no_bodies = true;
    auto const unknown = door.answer(post("k"), large);
    CHECK(unknown.status == 503);
    CHECK_MESSAGE(is_problem(unknown, "outcome-unknown"), unknown.body);
    door.store.has_no_bodies = false;
    CHECK(door.answer(post("k"), large).body.size() == 100'000);
    CHECK(door.effects() == "1");
}

TEST_CASE("where a large answer can't be kept now, nobody is told of others who had the same rows")
{
    front_door door;
    auto const large = door.giving({201, "", {}, std::string(100'000, 'x')});
    door.store.has_no_bodies = true;
    auto const heard = door.answer(post("k"), large);
    CHECK(heard.status == 503);
    CHECK_MESSAGE(is_problem(heard, "unavailable"), heard.body);
    CHECK(door.records() == "0|0|0|0");
    door.store.has_no_bodies = false;
    CHECK(door.answer(post("k"), large).status == 201);
    CHECK(door.effects() == "1");
}

TEST_CASE("data of the service's own that can't be taken is no mistake of its client's, who does not read of it")
{
    front_door door;
    for (auto const* text : {"secret \xff", "secret"}) {
        auto const heard = door.answer(post("k"), [&](http::request_context& ctx) -> http::response {
            if (std::string_view{text} == "secret") throw data_error{"the table wallet holds a secret"};
            ctx.start(order_saga::place_order, order_saga::order{text, "ann", "pen", 1, 100});
            return {202, "", {}, ""};
        });
        CHECK(heard.status == 500);
        CHECK(heard.body.find("json") == std::string::npos);
        CHECK(heard.body.find("secret") == std::string::npos);
    }
    CHECK(door.answer(post("k"),
                      [](http::request_context&) -> http::response { throw http::body_error{"the sku is empty"}; })
              .body.find("the sku is empty") != std::string::npos);
    CHECK(door.records() == "0|0|0|0");
}

TEST_CASE("a request that is rolled back each time for want of locks has had no effect, and hears so")
{
    front_door door;
    auto const heard = door.answer(post("k"), [&](http::request_context& ctx) -> http::response {
        ++door.runs;
        ctx.sql("INSERT INTO effect VALUES (1)");
        ctx.sql("DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = 'serialization_failure'; END $$");
        return {202, "", {}, ""};
    });
    CHECK(heard.status == 503);
    CHECK_MESSAGE(heard.body.find("nothing was done") != std::string::npos, heard.body);
    CHECK(!value_of(heard, "Retry-After").empty());
    CHECK(door.runs > 1);
    CHECK(door.records() == "0|0|0|0");
    CHECK(door.answer(post("k"), door.giving({202, "", {}, "accepted"})).status == 202);
}

TEST_CASE("a request whose handler loses its connection each time has had no effect, and hears of the database and not "
          "of others")
{
    front_door door;
    auto const heard = door.answer(post("k"), [&](http::request_context& ctx) -> http::response {
        ++door.runs;
        ctx.sql("INSERT INTO effect VALUES (1)");
        ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())");
        return {202, "", {}, ""};
    });
    CHECK(heard.status == 503);
    CHECK_MESSAGE(is_problem(heard, "unavailable"), heard.body);
    CHECK(door.runs > 1);
    CHECK(door.records() == "0|0|0|0");
    CHECK(door.answer(post("k"), door.giving({202, "", {}, "accepted"})).status == 202);
}

TEST_CASE("a first step that its service does not host starts nothing, and the log says why")
{
    struct other final : compensatable_step<order_saga::order>
    {
        outcome execute(step_context& ctx, order_saga::order&) const override
        {
            ctx.sql("INSERT INTO effect VALUES (1)");
            return done();
        }
        void compensate(step_context&, order_saga::order&) const override {}
    };
    runtime::registry steps;
    front_door door;
    door.steps = &steps;
    auto const here = [](http::request_context& ctx) {
        CHECK(ctx.start(order_saga::place_order, other{}, order_saga::order{}).is_done());
        return http::response{202, "", {}, ""};
    };
    auto const sent = [](http::request_context& ctx) {
        ctx.start(order_saga::place_order, order_saga::order{});
        return http::response{202, "", {}, ""};
    };
    auto const refuses = [&](auto const& handle, std::string const& why) {
        CHECK(door.answer(post("k"), handle).status == 500);
        CHECK(door.records() == "0|0|0|0");
        CHECK(door.effects() == "0");
        CHECK_MESSAGE(door.log.has(why), door.log.lines());
    };
    refuses(here,
            "the first step of place-order, create-order, is this service's, which does not host it: add it with");
    refuses(sent, "entry.failed route=\"POST /orders\" key=k error=");

    constexpr auto elsewhere = define("elsewhere", compensatable<order_saga::order>{"lend", "library"},
                                      pivot<order_saga::order>{"buy", "shop"});
    refuses(
        [&](http::request_context& ctx) {
            CHECK(ctx.start(elsewhere, other{}, order_saga::order{}).is_done());
            return http::response{202, "", {}, ""};
        },
        "belongs to the service library: start(saga, data) sends it there");

    auto const host = [&steps](std::shared_ptr<detail::hosted_step const> step) {
        steps = runtime::registry{};
        steps.add("place-order", "create-order", {std::move(step), {}});
    };
    host(std::make_shared<detail::typed_step<order_saga::order, refusing>>(refusing{}));
    CHECK(door.answer(post("sent"), sent).status == 202);
    host(std::make_shared<detail::typed_step<order_saga::order, other>>(other{}));
    CHECK(door.answer(post("here"), here).status == 202);
}
