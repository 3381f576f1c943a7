// How many deliveries a worker takes from the broker before it has acked any.
#include "support/shop.hpp"

using namespace skald::test;

TEST_CASE("a worker has as many deliveries out as its own prefetch and its steps' together say, and no more")
{
    shop s;
    auto variables = shop::variables(s.payments_db);
    variables["SKALD_LANES"] = "1";
    variables["SKALD_PREFETCH"] = "5";
    service_process payments{SKALD_FAULTY_PAYMENT_SERVICE, {}, variables};  // whose step asks for 3 more
    for (auto* service : {&s.orders, &payments}) service->start();
    for (auto* service : {&s.orders, &payments}) s.wait_until_started(*service);
    s.payments_db.ask("INSERT INTO wallet VALUES ('gated-1', 100000)");
    s.payments_db.ask("INSERT INTO gate VALUES ('gated-1')");

    constexpr std::uint32_t orders = 12, out = 5 + 3;
    for (std::uint32_t i = 1; i <= orders; ++i)
        REQUIRE(s.order("order-" + std::to_string(i), {.customer = "gated-1"}).status == 202);
    // All of them have left the orders' outbox, so that all are in the queue or with the worker.
    REQUIRE(wait_until([&] { return s.orders_db.count("skald.outbox") == 0; }));
    amqp_hands hands{broker()};
    CHECK(wait_until([&] { return hands.waiting_in("skald.payments") == orders - out; }));
    CHECK(payments.has_logged("prefetch=8"));

    s.payments_db.ask("DELETE FROM gate");
    CHECK(wait_until([&] { return s.payments_db.count("charge") == orders; }));
    CHECK(hands.waiting_in("skald.payments") == 0);
}
