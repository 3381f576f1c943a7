// Answers kept in memory at the HTTP entry: what was stored is answered without the database, and nothing else is.
#include "support/front_door.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <doctest/doctest.h>

using namespace skald;
using test::front_door;
using test::post;
using test::text_of;
using test::value_of;

TEST_CASE("what was answered here is answered from memory: to the same request in the same scope, and 422 to another")
{
    front_door door{1'000'000};
    auto const handle = door.giving({201, "text/plain", {{"Location", "/x"}}, "made"});
    auto const first = door.answer(post("k"), handle);
    door.db.run("TRUNCATE skald.idempotency, skald.response");  // so that the database knows nothing of it
    auto const again = door.answer(post("k"), handle);
    CHECK(text_of(again) == text_of(first));
    CHECK(value_of(again, "Idempotency-Replayed") == "true");
    CHECK(door.answer(post("k", "{ }"), handle).status == 422);
    CHECK(door.runs == 1);

    CHECK(value_of(door.answer(post("k"), handle, "other scope"), "Idempotency-Replayed").empty());
    CHECK(door.runs == 2);
}

TEST_CASE("what another process answered is found in the database, and then answered from memory too")
{
    front_door door{1'000'000};
    auto const handle = door.giving({201, "text/plain", {}, "made"});
    auto const first = door.answer_apart(post("k"), handle);
    CHECK(text_of(door.answer(post("k"), handle)) == text_of(first));
    door.db.run("TRUNCATE skald.idempotency, skald.response");
    CHECK(text_of(door.answer(post("k"), handle)) == text_of(first));
    CHECK(door.runs == 1);
}

TEST_CASE("the answer to a refused first step, which is stored without the handler's writes, is kept like any other")
{
    struct refusing final : compensatable_step<order_saga::order>
    {
        outcome execute(step_context&, order_saga::order&) const override { return reject("no"); }
        void compensate(step_context&, order_saga::order&) const override {}
    };
    front_door door{1'000'000};
    auto const start = [&](http::request_context& ctx) {
        ++door.runs;
        CHECK(ctx.start(order_saga::place_order, refusing{}, order_saga::order{}).rejected() != nullptr);
        return http::problem_response(422, "no");
    };
    auto const first = door.answer(post("k"), start);
    door.db.run("TRUNCATE skald.idempotency, skald.response");
    CHECK(text_of(door.answer(post("k"), start)) == text_of(first));
    CHECK(door.runs == 1);
}

TEST_CASE(
    "what was not stored is not answered from memory: a 5xx, a COMMIT that failed, one whose outcome stays unknown")
{
    front_door door{1'000'000};
    auto const good = door.giving({201, "", {}, ""});
    CHECK(door.answer(post("a"), door.giving({503, "", {}, ""})).status == 503);
    CHECK(door.answer(post("a"), good).status == 201);

    door.db.run("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES parent DEFERRABLE "
                "INITIALLY DEFERRED)");
    CHECK(door.answer(post("b"),
                      [](http::request_context& ctx) -> http::response {
                          ctx.sql("INSERT INTO child VALUES (1)");
                          return {201, "", {}, ""};
                      })
              .status == 500);
    CHECK(value_of(door.answer(post("b"), good), "Idempotency-Replayed").empty());

    auto const unknown = door.answer(post("c"), [&](http::request_context&) -> http::response {
        door.store.next = test::doubtful_store::loses::the_commit;  // each time it is tried
        return {201, "", {}, ""};
    });
    CHECK(unknown.status == 503);
    CHECK(value_of(door.answer(post("c"), good), "Idempotency-Replayed").empty());
    CHECK(door.effects() == "3");
}

TEST_CASE(
    "what was kept before a new epoch of the database is not answered from memory once a claim has met that epoch")
{
    front_door door{1'000'000};
    auto const first = door.answer(post("k"), door.giving({201, "text/plain", {}, "lost"}));
    CHECK(text_of(door.answer(post("k"), door.giving({500, "", {}, ""}))) == text_of(first));

    // As after a failover that lost it.
    door.db.run("BEGIN; DELETE FROM skald.response; DELETE FROM skald.idempotency; SELECT skald.begin_epoch(); COMMIT");
    CHECK(door.answer(post("other"), door.giving({201, "", {}, ""})).status == 201);

    auto const again = door.answer(post("k"), door.giving({201, "text/plain", {}, "made again"}));
    CHECK(again.body == "made again");
    CHECK(value_of(again, "Idempotency-Replayed").empty());
    door.db.run("TRUNCATE skald.idempotency, skald.response");  // so that only memory can have it
    CHECK(door.answer(post("k"), door.giving({500, "", {}, ""})).body == "made again");
}

TEST_CASE("the epoch names the server's timeline, and begin_epoch changes it once it has committed")
{
    test::database const db;
    auto const before = db.one("SELECT skald.epoch()");
    CHECK(before ==
          db.one("SELECT concat(id, '/', place, '/', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), '/', "
                 "epoch) FROM skald.service"));
    db.run("BEGIN; SELECT skald.begin_epoch(); ROLLBACK");
    CHECK(db.one("SELECT skald.epoch()") == before);
    db.run("SELECT skald.begin_epoch()");
    CHECK(db.one("SELECT skald.epoch()") != before);
}

TEST_CASE("the epoch that follows a restore is not the one that followed the backup")
{
    test::database const db;
    db.run("CREATE TABLE backup AS SELECT epoch FROM skald.service; SELECT skald.begin_epoch()");
    auto const lost = db.one("SELECT skald.epoch()");
    db.run("UPDATE skald.service SET epoch = (SELECT epoch FROM backup); SELECT skald.begin_epoch()");
    CHECK(db.one("SELECT skald.epoch()") != lost);
}
