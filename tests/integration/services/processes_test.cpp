// Processes that end in order, or not at all in order, in the middle of orders; and several of one service.
#include <thread>

#include "support/shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

/// `count` orders with the keys prefix-0.., each sent until it is accepted, whatever happens to the service meanwhile.
std::jthread place(shop& s, std::string prefix, int count)
{
    return std::jthread{[&s, prefix = std::move(prefix), count] {
        for (int i = 0; i < count; ++i)
            (void)wait_until(
                [&] {
                    try {
                        return s.order(prefix + std::to_string(i), {.sku = i % 4 == 0 ? "rare" : "lamp", .cents = 10})
                                   .status == 202;
                    }
                    catch (std::exception const&) {
                        return false;
                    }
                },
                60s);
    }};
}

void check_all_well(shop& s, int orders)
{
    CHECK(s.all_end(90s));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.count("customer_order") == orders);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
}

}  // namespace

TEST_CASE("SIGTERM in the middle of orders drains, ends with 0, and leaves nothing half done")
{
    shop s;
    s.open();
    auto clients = place(s, "k", 150);
    for (int round = 1; round <= 4; ++round) {
        REQUIRE(wait_until([&] { return s.orders_db.count("customer_order") >= 25 * round; }, 60s));
        for (auto* service : s.services()) {
            auto const end = service->terminate();
            CHECK_MESSAGE(end.code == 0, service->log());
            CHECK(service->has_logged("clean=yes"));
            service->start();
            s.wait_until_started(*service);
        }
    }
    clients.join();
    check_all_well(s, 150);
    s.close_in_order();
}

TEST_CASE("SIGTERM in the middle of a slow step waits for it")
{
    shop s;
    s.open();
    s.payments_db.slow_down("charge", 3s);
    REQUIRE(s.order("k").status == 202);
    REQUIRE(wait_until([&] { return s.payments_db.is_slow_now(); }));
    CHECK(s.payments.terminate().code == 0);
    CHECK(s.payments_db.count("charge") == 1);
    CHECK(s.ends("k", "completed"));
}

TEST_CASE("a step that takes longer than the drain is not done, says so with 75, and is done by the next process")
{
    shop s;
    s.payments.set_variable("SKALD_DRAIN_SECONDS", "1");
    s.open();
    s.payments_db.slow_down("charge", 4s);
    REQUIRE(s.order("k").status == 202);
    REQUIRE(wait_until([&] { return s.payments_db.is_slow_now(); }));
    CHECK(s.payments.terminate().code == 75);
    s.payments.start();
    CHECK(s.ends("k", "completed"));
    CHECK(s.payments_db.count("charge") == 1);
    s.check_books(100001, 1000);
}

TEST_CASE("orders whose services are killed again and again all end, with each effect once")
{
    shop s;
    s.open();
    auto clients = place(s, "k", 150);
    for (int round = 1; round <= 5; ++round) {
        REQUIRE(wait_until([&] { return s.orders_db.count("customer_order") >= 20 * round; }, 60s));
        for (auto* service : s.services()) {
            service->kill_and_restart();
            s.wait_until_started(*service);
        }
    }
    clients.join();
    check_all_well(s, 150);
    s.close_in_order();
}

TEST_CASE("two processes of each service share the work, and every effect is single")
{
    shop s;
    amqp_hands hands{broker()};
    hands.capture_everything();
    s.open();
    service_process payments{shop::program("payment"), {}, shop::variables(s.payments_db)};
    service_process shipping{shop::program("shipping"), {}, shop::variables(s.shipping_db)};
    service_process orders{shop::program("order"), {"--listen", "127.0.0.1:0"}, shop::variables(s.orders_db)};
    for (auto* second : {&payments, &shipping, &orders}) {
        second->start();
        s.wait_until_started(*second);
    }
    // The same keys through both, at the same time.
    std::vector<std::jthread> clients;
    for (auto const port : {s.orders.http_port(), orders.http_port()})
        clients.emplace_back([port] {
            for (int i = 0; i < 100; ++i)
                (void)wait_until([&] {
                    order_request const what{.sku = i % 4 == 0 ? "rare" : "lamp", .cents = 10};
                    return raw_client{port}.ask(shop::post("k" + std::to_string(i), what.body())).status == 202;
                });
        });
    clients.clear();
    for (auto const& one : hands.take_captured())
        for (int i = 0; i < 3; ++i) hands.send(one);
    check_all_well(s, 100);
    CHECK(s.all_acked());
    for (auto* second : {&payments, &shipping, &orders}) CHECK(second->terminate().code == 0);
    s.close_in_order();
}

TEST_CASE("three services that start at the same moment on empty databases and an empty broker all come up")
{
    shop s;
    amqp_hands hands{broker()};
    hands.delete_exchange("skald");
    service_process second{shop::program("payment"), {}, shop::variables(s.payments_db)};
    service_process third{shop::program("payment"), {}, shop::variables(s.payments_db)};
    second.start();
    third.start();
    s.start_all();
    s.wait_until_started(second);
    s.wait_until_started(third);
    s.fill();
    CHECK(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    s.close_in_order();
}

TEST_CASE("without its relay a service keeps its messages, and another process with one sends them")
{
    shop s;
    s.orders.set_variable("SKALD_RELAY", "off");
    s.open();
    REQUIRE(s.order("k").status == 202);
    CHECK(s.orders_db.count("skald.outbox") == 1);
    service_process relay{shop::program("order"), {}, shop::variables(s.orders_db)};
    relay.start();
    CHECK(s.ends("k", "completed"));
    CHECK(s.outboxes_empty());
}

TEST_CASE("a relay that starts before anybody has made the schema waits for it, and then sends")
{
    shop s;
    service_process relay{SKALD_TOOL, {"relay"}, shop::variables(s.orders_db)};
    relay.start();
    REQUIRE(wait_until([&] { return relay.has_logged(" relay.waiting ") || !relay.is_running(); }));
    REQUIRE_MESSAGE(relay.is_running(), relay.log());
    s.orders.set_variable("SKALD_RELAY", "off");
    s.open();
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK_MESSAGE(relay.has_logged(" relay.available "), relay.log());
}

TEST_CASE("a relay that waits for one thing after the other says each")
{
    shop s;
    auto variables = shop::variables(s.orders_db);
    variables["AMQP_URL"] = "amqp://127.0.0.1:1";
    service_process relay{SKALD_TOOL, {"relay"}, variables};
    relay.start();
    CHECK(wait_until([&] { return relay.has_logged(" relay.waiting "); }));
    CHECK_FALSE(relay.has_logged("127.0.0.1:1"));
    service_process migrate{SKALD_TOOL, {"migrate", "--service", "orders"}, variables};
    REQUIRE(migrate.run().code == 0);
    CHECK_MESSAGE(wait_until([&] { return relay.has_logged("127.0.0.1:1"); }), relay.log());
}

TEST_CASE("a relay logs as the workers of its service do")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.orders.terminate().code == 0);
    auto variables = shop::variables(s.orders_db);
    variables["SKALD_LOG_FORMAT"] = "json";
    service_process relay{SKALD_TOOL, {"relay"}, variables};
    relay.start();
    CHECK_MESSAGE(wait_until([&] { return relay.has_logged("\"service\":\"orders\"") || !relay.is_running(); }),
                  relay.log());
    CHECK_MESSAGE(relay.terminate().code == 0, relay.log());
    CHECK_FALSE(relay.has_logged("\"service\":\"relay\""));
}

TEST_CASE("a relay does not wait where the schema skald is another application's")
{
    shop s;
    s.orders_db.ask("CREATE SCHEMA skald CREATE TABLE poems (id int)");
    service_process relay{SKALD_TOOL, {"relay"}, shop::variables(s.orders_db)};
    CHECK_MESSAGE(relay.run().code == 2, relay.log());
}

TEST_CASE("a relay that is stopped while another session holds its outbox ends in order")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.orders.terminate().code == 0);
    pqxx::connection c{s.orders_db.url()};
    pqxx::work holds{c};
    holds.exec("LOCK skald.outbox");
    auto variables = shop::variables(s.orders_db);
    variables["SKALD_LOCK_TIMEOUT_MS"] = "2000";
    service_process relay{SKALD_TOOL, {"relay"}, variables};
    relay.start();
    REQUIRE(wait_until([&] { return s.orders_db.has_one_waiting(); }));
    auto const end = relay.terminate();
    CHECK_MESSAGE(end.code == 0, skald::rig::in_words(end), ": ", relay.log());
}
