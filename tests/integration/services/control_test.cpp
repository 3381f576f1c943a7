// An operator's orders in skald.control, read by every claim.
#include "support/shop.hpp"

using namespace skald::test;

TEST_CASE("a cancel that comes before the charge cancels the order")
{
    shop s;
    s.start_all();
    s.fill();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    s.payments_db.ask("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'cancel')");
    s.payments.start();
    CHECK(s.ends("k", "compensated"));
    CHECK(s.payments_db.count("charge") == 0);
    CHECK(s.orders_db.value("SELECT status FROM customer_order") == "cancelled");
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a client that cancels its saga over HTTP hears its end by waiting for it")
{
    shop s;
    s.open();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    auto waiter = s.connect();
    waiter.send("GET /sagas/k?wait=25 HTTP/1.1\r\nHost: shop\r\n\r\n");
    CHECK(s.connect().ask("DELETE /sagas/k HTTP/1.1\r\nHost: shop\r\n\r\n").status == 202);
    s.payments.start();
    CHECK(json::parse(waiter.read_answer().body)["status"] == "compensated");
    CHECK(s.connect().ask("DELETE /sagas/k HTTP/1.1\r\nHost: shop\r\n\r\n").status == 200);
    CHECK(s.payments_db.count("charge WHERE kind = 'charge'") == s.payments_db.count("charge WHERE kind = 'refund'"));
    CHECK(s.orders_db.value("SELECT status FROM customer_order") == "cancelled");

    REQUIRE(s.order("done").status == 202);
    CHECK(json::parse(s.get("/sagas/done?wait=25").body)["status"] == "completed");
    CHECK(s.connect().ask("DELETE /sagas/done HTTP/1.1\r\nHost: shop\r\n\r\n").status == 409);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a cancel that comes after the pivot changes nothing")
{
    shop s;
    s.start_all();
    s.fill();
    REQUIRE(s.order("first").status == 202);
    REQUIRE(s.ends("first", "completed"));
    for (auto* database : s.databases())
        database->ask("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'first', 'orders', 'cancel')");
    s.orders_db.ask("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'cancel')");
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK(s.status("first") == "completed");
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a paused saga waits, and goes on when it is released")
{
    shop s;
    s.open();
    s.payments_db.ask("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'pause')");
    REQUIRE(s.order("k").status == 202);
    REQUIRE(wait_until([&] { return s.payments_db.count("skald.outbox WHERE due_at > now()") == 1; }));
    REQUIRE(s.order("other").status == 202);
    CHECK(s.ends("other", "completed"));
    CHECK(s.status("k") == "running");
    s.payments_db.ask("DELETE FROM skald.control");
    CHECK(s.ends("k", "completed"));
    CHECK(s.payments_db.count("charge") == 2);
    s.close_in_order();
}

TEST_CASE("a signal for a step that never waits is 404, and one for another service's step says what is not known")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    REQUIRE(s.order("k").status == 202);
    auto const signal = [&](std::string const& step) {
        return s.connect().ask("POST /sagas/k/signals/" + step +
                               " HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nIdempotency-Key: for-" +
                               step + "\r\nContent-Length: 2\r\n\r\n{}");
    };
    auto const never = signal("confirm-order");
    CHECK(never.status == 404);
    CHECK_MESSAGE(never.body.find("never waits for a signal") != std::string::npos, never.body);
    auto const elsewhere = signal("charge-payment");
    CHECK(elsewhere.status == 202);
    CHECK_MESSAGE(elsewhere.body.find("alone knows whether") != std::string::npos, elsewhere.body);
    s.payments.start();
    s.wait_until_started(s.payments);
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked WHERE reason = 'malformed'") == 1; }));
    for (auto* one : {&s.orders, &s.payments}) CHECK(one->terminate().code == 0);
}
