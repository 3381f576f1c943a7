// A home that does not know the saga: another database than the one that started it, or one from a backup.
#include "support/stepped_shop.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using skald::test::stepped_shop;

TEST_CASE("what is told of a saga that its home does not know is parked once, and what is told with it counts")
{
    stepped_shop s;
    s.order("1");
    s.order("2");
    s.run();
    auto& orders = s.at("orders");
    orders.db.run("DELETE FROM skald.progress");
    orders.db.run("DELETE FROM skald.saga WHERE key = '1'");
    auto told = s.last_sent("skald.progress");
    told.body = R"([{"scope":"","key":"1","step":"charge-payment","service":"payments","status":"completed","attempts":1,)"
                R"("at":"2026-01-31T12:00:00.000000Z"},)"
                R"({"scope":"","key":"2","step":"charge-payment","service":"payments","status":"completed","attempts":1,)"
                R"("at":"2026-01-31T12:00:00.000000Z"}])";
    for (int times = 0; times < 3; ++times) s.transport().inject(told);
    s.run();
    CHECK(orders.db.rows("SELECT key FROM skald.progress") == "2");
    CHECK(orders.db.rows("SELECT reason, key, step, type, message_id FROM skald.parked") ==
          "unknown_saga|1||skald.progress|1:charge-payment.progress");
    CHECK(orders.db.one("SELECT convert_from(body, 'UTF8')::jsonb->0->>'status' FROM skald.parked") == "completed");

    // With the saga back, what was parked can be sent again.
    orders.db.run("INSERT INTO skald.saga SELECT (jsonb_populate_record(s, '{\"key\":\"1\"}')).* FROM skald.saga s");
    CHECK(orders.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    s.run();
    CHECK(orders.db.rows("SELECT key FROM skald.progress ORDER BY 1") == "1\n2");
}

TEST_CASE("a step that would end a saga which its home does not know fails, with the reason")
{
    stepped_shop s;
    auto& orders = s.at("orders");
    s.order("1");
    orders.db.run("DELETE FROM skald.saga");
    orders.relay_due();
    for (auto const* service : {"orders", "payments", "shipping"}) {
        REQUIRE(s.at(service).settle_one());
        s.at(service).relay_due();
    }
    skald::test::service::running_lanes const lanes{orders, 1};
    CHECK(skald::testing::wait_until(
        [&] { return orders.db.one("SELECT status FROM skald.idempotency WHERE step = 'confirm-order'") == "retrying"; }));
    CHECK(orders.db.one("SELECT error LIKE '%no saga 1 was started in this database%' FROM skald.idempotency "
                        "WHERE step = 'confirm-order'") == "t");
    CHECK(orders.db.one("SELECT status FROM customer_order") == "pending");
}
