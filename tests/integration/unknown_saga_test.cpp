// A home that does not know the saga: another database than the one that started it, or one from a backup.
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using skald::test::completed;
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
    told.body =
        R"([{"scope":"","key":"1","step":"charge-payment","service":"payments","status":"completed","attempts":1,)"
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

TEST_CASE("a message that waits, and is reported at every try, is one row where its saga is unknown: the latest report")
{
    stepped_shop s;
    s.order("1");
    s.run();
    auto& orders = s.at("orders");
    auto told = s.last_sent("skald.progress");
    auto const report = [&](std::string const& step, std::string const& status, int attempts,
                            std::string const& second) {
        told.body = R"([{"scope":"","key":"new","step":")" + step + R"(","service":"payments","status":")" + status +
                    R"(","attempts":)" + std::to_string(attempts) + R"(,"at":"2026-01-31T12:00:)" + second +
                    R"(.000000Z"}])";
        s.transport().inject(told);
    };
    for (int n = 0; n < 25; ++n) report("charge-payment", "retrying", n, std::to_string(10 + n));
    report("charge-payment", "completed", 26, "50");
    report("charge-payment", "retrying", 25, "49");  // which comes late
    report("arrange-shipping", "retrying", 1, "51");
    s.run();
    CHECK(orders.db.rows(
              "SELECT key, message_id, error, convert_from(body, 'UTF8')::jsonb->0->>'attempts' FROM skald.parked "
              "ORDER BY message_id") == "new|new:arrange-shipping.progress|arrange-shipping of payments is retrying, "
                                        "but no saga of this key was started "
                                        "in this database, or it has expired|1\n"
                                        "new|new:charge-payment.progress|charge-payment of payments is completed, but "
                                        "no saga of this key was started in "
                                        "this database, or it has expired|26");

    orders.db.run("INSERT INTO skald.saga SELECT (jsonb_populate_record(s, "
                  "'{\"key\":\"new\",\"status\":\"running\",\"finished_at\":null}')).* "
                  "FROM skald.saga s");
    CHECK(orders.db.rows("SELECT DISTINCT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    s.run();
    CHECK(orders.db.rows("SELECT step, status FROM skald.progress WHERE key = 'new' ORDER BY 1") ==
          "arrange-shipping|retrying\ncharge-payment|completed");
    CHECK(orders.db.one("SELECT count(*) FROM skald.parked") == "0");
}

TEST_CASE("a step at home of a saga that the home does not know leaves a row that is seen, and its work stands")
{
    stepped_shop s;
    auto& orders = s.at("orders");
    s.order("1");
    orders.db.run("DELETE FROM skald.saga");
    s.run();
    CHECK(s.effects() == completed);
    CHECK(orders.db.rows(
              "SELECT reason, key, error LIKE 'a step was run%' FROM skald.parked WHERE type = 'skald.saga'") ==
          "unknown_saga|1|t");
    for (auto const& m : s.transport().captured()) s.transport().inject(m);
    s.run();
    CHECK(orders.db.one("SELECT count(*) FROM skald.parked WHERE type = 'skald.saga'") == "1");
}
