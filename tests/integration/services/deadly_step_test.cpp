// A step that raises SIGSEGV for one key, each time: it takes its process with it, and must not take the others' work.
#include <csignal>

#include "support/shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

TEST_CASE(
    "a step that kills its worker each time ends parked after a bounded number of deliveries, and other keys go on")
{
    shop s;
    service_process payments{SKALD_FAULTY_PAYMENT_SERVICE, {}, shop::variables(s.payments_db)};
    for (auto* service : {&s.orders, &payments, &s.shipping}) service->start();
    for (auto* service : {&s.orders, &payments, &s.shipping}) s.wait_until_started(*service);
    s.fill();
    CHECK(payments.terminate().code == 0);
    s.payments_db.ask("INSERT INTO wallet VALUES ('deadly-1', 1000)");
    REQUIRE(s.order("deadly", {.customer = "deadly-1"}).status == 202);

    // These stand behind it in the queue, unacked when it dies, each time.
    constexpr int behind = 30;
    for (int i = 1; i <= behind; ++i) REQUIRE(s.order("behind-" + std::to_string(i)).status == 202);
    CHECK(wait_until([&] { return s.orders_db.count("skald.outbox") == 0; }));
    payments.start();

    constexpr int deliveries_max = 50;
    int deaths = 0, others = 0;
    bool const parked = wait_until(
        [&] {
            if (!payments.is_running()) {
                CHECK(payments.wait().signal == SIGSEGV);
                // A neighbour that is delivered together with it, in every fifth life.
                if (++deaths % 5 == 0) s.order("other-" + std::to_string(++others));
                payments.start();
            }
            return s.payments_db.count("skald.parked WHERE key = 'deadly'") == 1 || deaths > 2 * deliveries_max;
        },
        180s);
    CHECK(parked);
    CHECK(deaths >= deliveries_max);
    CHECK(deaths <= deliveries_max + 2);
    MESSAGE("deaths: ", deaths, ", orders placed meanwhile: ", others);

    CHECK(s.payments_db.ask("SELECT step, reason FROM skald.parked") == table{{"charge-payment", "delivery_limit"}});
    CHECK(s.ends("deadly", "stuck"));
    for (int i = 1; i <= others; ++i) CHECK(s.ends("other-" + std::to_string(i), "completed"));
    for (int i = 1; i <= behind; ++i) CHECK(s.ends("behind-" + std::to_string(i), "completed"));
    CHECK(s.payments_db.count("charge") == behind + others);
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'deadly-1'") == "1000");
    CHECK(payments.is_running());
    REQUIRE(s.order("after").status == 202);
    CHECK(s.ends("after", "completed"));
}
