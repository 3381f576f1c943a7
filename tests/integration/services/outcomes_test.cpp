// How an order can end: the exact contents of the three databases, and what GET /sagas/{key} says of it.
#include "support/shop.hpp"

using namespace skald::test;

TEST_CASE("an order that nothing speaks against is charged, shipped and confirmed, once")
{
    shop s;
    s.open();
    auto const answer = s.order("k1", {.quantity = 2, .cents = 300});
    REQUIRE(answer.status == 202);
    CHECK(answer.value_of("Location") == "/sagas/k1");
    CHECK(answer.value_of("Idempotency-Replayed").empty());
    auto const body = json::parse(answer.body);
    std::string const id = body["order_id"];
    CHECK(body["saga"] == "k1");

    REQUIRE(s.ends("k1", "completed"));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.ask("SELECT * FROM customer_order") == table{{id, "ann", "lamp", "2", "300", "confirmed"}});
    CHECK(s.payments_db.ask("SELECT * FROM charge") == table{{id, "ann", "300", "charge"}});
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'ann'") == "99700");
    CHECK(s.shipping_db.ask("SELECT * FROM shipment") == table{{id, "lamp", "2"}});
    CHECK(s.shipping_db.value("SELECT free FROM stock WHERE sku = 'lamp'") == "998");
    CHECK(s.parked_in_all() == 0);
    CHECK(s.orders_db.ask("SELECT step, status, attempts FROM skald.idempotency ORDER BY step") ==
          table{{"", "completed", "1"}, {"confirm-order", "completed", "1"}, {"create-order", "completed", "1"}});
    CHECK(s.payments_db.ask("SELECT step, status FROM skald.idempotency") == table{{"charge-payment", "completed"}});
    CHECK(s.shipping_db.ask("SELECT step, status FROM skald.idempotency") == table{{"arrange-shipping", "completed"}});

    CHECK(wait_until([&] {
        return shop::steps(s.saga("k1")) ==
               "create-order=completed charge-payment=completed arrange-shipping=completed confirm-order=completed ";
    }));
    auto const view = s.saga("k1");
    CHECK(view["definition"] == "place-order");
    CHECK(view["reason"].is_null());
    CHECK(view["finished_at"].is_string());
    s.close_in_order();
}

TEST_CASE("a declined card cancels the order and moves no money")
{
    shop s;
    s.open();
    auto const answer = s.order("k1", {.customer = "poor"});
    REQUIRE(answer.status == 202);
    std::string const id = json::parse(answer.body)["order_id"];
    REQUIRE(s.ends("k1", "compensated"));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.ask("SELECT id, status FROM customer_order") == table{{id, "cancelled"}});
    CHECK(s.payments_db.count("charge") == 0);
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'poor'") == "1");
    CHECK(s.shipping_db.count("shipment") == 0);
    CHECK(s.shipping_db.count("skald.idempotency") == 0);
    CHECK(s.parked_in_all() == 0);
    CHECK(wait_until([&] {
        return shop::steps(s.saga("k1")) == "create-order=completed/completed charge-payment=rejected "
                                            "arrange-shipping=pending confirm-order=pending ";
    }));
    CHECK(s.saga("k1")["reason"] == "insufficient funds");
    s.close_in_order();
}

TEST_CASE("out of stock refunds the charge and cancels the order")
{
    shop s;
    s.open();
    auto const answer = s.order("k1", {.sku = "rare"});
    REQUIRE(answer.status == 202);
    std::string const id = json::parse(answer.body)["order_id"];
    REQUIRE(s.ends("k1", "compensated"));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.ask("SELECT id, status FROM customer_order") == table{{id, "cancelled"}});
    CHECK(s.payments_db.ask("SELECT * FROM charge ORDER BY kind") ==
          table{{id, "ann", "100", "charge"}, {id, "ann", "100", "refund"}});
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'ann'") == "100000");
    CHECK(s.shipping_db.count("shipment") == 0);
    CHECK(s.parked_in_all() == 0);
    CHECK(wait_until([&] {
        return shop::steps(s.saga("k1")) == "create-order=completed/completed charge-payment=completed/completed "
                                            "arrange-shipping=rejected confirm-order=pending ";
    }));
    CHECK(s.saga("k1")["reason"] == "out of stock");
    s.close_in_order();
}

TEST_CASE("two hundred orders of one customer, more than the wallet holds, end with not a cent too many")
{
    shop s;
    s.open();
    s.payments_db.ask("UPDATE wallet SET cents = 12000 WHERE customer = 'ann'");
    auto client = s.connect();
    for (int i = 0; i < 200; ++i)
        REQUIRE(client.ask(shop::post("hot-" + std::to_string(i), order_request{}.body())).status == 202);
    REQUIRE(s.all_end(std::chrono::seconds{60}));
    CHECK(s.outboxes_empty());
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'ann'") == "0");
    CHECK(s.orders_db.count("customer_order WHERE status = 'confirmed'") == 120);
    s.check_books(12001, 1000);
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}
