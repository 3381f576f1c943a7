// The order example as a customer and an operator meet it: three processes, three fresh databases, a clean broker.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/amqp_hands.hpp"
#include "support/fresh_database.hpp"
#include "support/raw_http.hpp"
#include "support/service_process.hpp"
#include "support/stack_control.hpp"

namespace skald::test {

using nlohmann::json;

inline constexpr std::array<char const*, 3> service_names{"orders", "payments", "shipping"};

/// A vhost for this run, so that nothing else uses our queues; without a stack to ask, the one of AMQP_URL.
inline amqp_place const& broker()
{
    static amqp_place const place = [] {
        amqp_place made{required("AMQP_URL")};
        if (std::getenv("SKALD_TEST_STACK") == nullptr) return made;
        made.vhost = "e2e-" + random_word();
        rabbitmqctl("add_vhost " + made.vhost);
        rabbitmqctl("set_permissions -p " + made.vhost + ' ' + made.user + " '.*' '.*' '.*'");
        return made;
    }();
    return place;
}

struct order_request
{
    std::string customer{"ann"};
    std::string sku{"lamp"};
    int quantity{1};
    long cents{100};

    std::string body() const
    {
        return json{{"customer", customer}, {"sku", sku}, {"quantity", quantity}, {"cents", cents}}.dump();
    }
};

class shop
{
public:
    fresh_database orders_db{"orders"}, payments_db{"payments"}, shipping_db{"shipping"};
    service_process orders{program("order"), {"--listen", "127.0.0.1:0"}, variables(orders_db)};
    service_process payments{program("payment"), {}, variables(payments_db)};
    service_process shipping{program("shipping"), {}, variables(shipping_db)};

    shop()
    {
        amqp_hands hands{broker()};
        for (std::string const service : service_names) {
            hands.delete_queue("skald." + service);
            hands.delete_queue("skald." + service + ".parked");
        }
        hands.declare_exchange("skald");
    }
    ~shop()
    {
        if (std::uncaught_exceptions() > 0 || std::getenv("SKALD_TEST_LOGS") != nullptr) print_logs();
    }

    /// What no process can run does not wait for a deployment. Before open().
    void parks_at_once()
    {
        for (auto* one : services()) one->set_variable("SKALD_DEPLOY_WAIT_SECONDS", "0");
    }

    static std::string program(std::string const& name)
    {
        return std::string{SKALD_SERVICES_DIR} + '/' + name + "_service";
    }
    /// For services on new databases: those that had the queues before are gone.
    static environment variables(fresh_database const& database)
    {
        amqp_hands hands{broker()};
        for (std::string const service : service_names) hands.delete_queue("skald." + service + ".database");
        return {{"DATABASE_URL", database.url()}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}};
    }

    std::array<service_process*, 3> services() { return {&orders, &payments, &shipping}; }
    std::array<fresh_database*, 3> databases() { return {&orders_db, &payments_db, &shipping_db}; }

    void start_all()
    {
        for (auto* service : services()) service->start();
        for (auto* service : services()) wait_until_started(*service);
    }
    void wait_until_started(service_process& service)
    {
        REQUIRE_MESSAGE(wait_until([&] { return service.has_logged(" worker.started ") || !service.is_running(); }),
                        service.log());
        REQUIRE_MESSAGE(service.is_running(), service.log());
    }
    /// Three services with stock and money, up and running.
    void open()
    {
        start_all();
        fill();
    }
    void fill()
    {
        payments_db.ask("INSERT INTO wallet VALUES ('ann', 100000), ('poor', 1)");
        shipping_db.ask("INSERT INTO stock VALUES ('lamp', 1000), ('rare', 0)");
    }

    raw_client connect() { return raw_client{orders.http_port()}; }
    static std::string post(std::string const& key, std::string const& body, std::string const& more = {})
    {
        return "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n" +
               (key.empty() ? "" : "Idempotency-Key: " + key + "\r\n") + more +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    raw_answer order(std::string const& key, order_request const& what = {}, std::string const& more = {})
    {
        return connect().ask(post(key, what.body(), more));
    }
    raw_answer get(std::string const& target, std::string const& more = {})
    {
        return connect().ask("GET " + target + " HTTP/1.1\r\nHost: shop\r\n" + more + "\r\n");
    }
    json saga(std::string const& key, std::string const& more = {})
    {
        auto const answer = get("/sagas/" + key, more);
        return answer.status == 200 ? json::parse(answer.body) : json{{"status", answer.status}};
    }
    std::string status(std::string const& key, std::string const& more = {})
    {
        auto const view = saga(key, more);
        return view["status"].is_string() ? view["status"].get<std::string>() : view["status"].dump();
    }
    /// {"create-order": "completed", "create-order.compensate": ...} of a saga's view.
    static std::string steps(json const& view)
    {
        std::string text;
        for (auto const& step : view["steps"]) {
            text += step["name"].get<std::string>() + '=' + step["status"].get<std::string>();
            if (step.contains("compensation")) text += '/' + step["compensation"]["status"].get<std::string>();
            text += ' ';
        }
        return text;
    }
    bool ends(std::string const& key, std::string const& expected, std::chrono::milliseconds longest = wait_max)
    {
        return wait_until([&] { return status(key) == expected; }, longest);
    }
    long sagas_not_ended() { return orders_db.count("skald.saga WHERE status NOT IN ('completed', 'compensated')"); }
    bool all_end(std::chrono::milliseconds longest = wait_max)
    {
        return wait_until([&] { return sagas_not_ended() == 0; }, longest);
    }
    bool outboxes_empty(std::chrono::milliseconds longest = wait_max)
    {
        return wait_until(
            [&] { return std::ranges::all_of(databases(), [](auto* d) { return d->count("skald.outbox") == 0; }); },
            longest);
    }
    std::uint32_t waiting_deliveries()
    {
        amqp_hands hands{broker()};
        std::uint32_t sum = 0;
        for (std::string const service : service_names)
            sum += hands.waiting_in("skald." + service) + hands.waiting_in("skald." + service + ".parked");
        return sum;
    }
    table parked(fresh_database& database)
    {
        return database.ask("SELECT reason, error FROM skald.parked ORDER BY id");
    }
    long parked_in_all()
    {
        return orders_db.count("skald.parked") + payments_db.count("skald.parked") + shipping_db.count("skald.parked");
    }

    /// All drain on SIGTERM with exit code 0.
    void close_in_order()
    {
        for (auto* service : services()) service->kill(SIGTERM);
        for (auto* service : services()) {
            auto const end = service->wait();
            CHECK_MESSAGE(end.code == 0, service->log());
        }
    }

    /// Every delivery is acked: none waits, and no service has one that it has not processed yet.
    bool all_acked()
    {
        return wait_until([] {
            auto const queues =
                rabbitmqctl("-q list_queues --no-table-headers -p " + broker().vhost + " messages name");
            std::istringstream lines{queues};
            for (std::string line; std::getline(lines, line);)
                if (line.find("\tskald.") != std::string::npos && !line.starts_with("0\t")) return false;
            return true;
        });
    }

    /// Every order's effects are complete: what the three databases say about each is consistent.
    void check_books(long money_before, long stock_before)
    {
        CHECK(payments_db.ask("SELECT order_id, kind FROM charge GROUP BY 1, 2 HAVING count(*) > 1").empty());
        CHECK(shipping_db.ask("SELECT order_id FROM shipment GROUP BY 1 HAVING count(*) > 1").empty());
        CHECK(orders_db.count("customer_order WHERE status = 'pending'") == 0);
        CHECK(orders_db.count("customer_order") == orders_db.count("skald.saga"));
        CHECK(orders_db.count("customer_order WHERE status = 'confirmed'") ==
              orders_db.count("skald.saga WHERE status = 'completed'"));
        auto const confirmed = orders_db.ask("SELECT id FROM customer_order WHERE status = 'confirmed' ORDER BY 1");
        CHECK(shipping_db.ask("SELECT order_id FROM shipment ORDER BY 1") == confirmed);
        CHECK(
            payments_db.ask("SELECT order_id FROM charge GROUP BY 1 HAVING sum(CASE kind WHEN 'charge' THEN 1 ELSE -1 "
                            "END) = 1 ORDER BY 1") == confirmed);
        CHECK(payments_db.value("SELECT coalesce(sum(CASE kind WHEN 'charge' THEN cents ELSE -cents END), 0) + "
                                "(SELECT sum(cents) FROM wallet) FROM charge") == std::to_string(money_before));
        CHECK(shipping_db.value("SELECT coalesce(sum(quantity), 0) + (SELECT sum(free) FROM stock) FROM shipment") ==
              std::to_string(stock_before));
    }

    void print_logs()
    {
        for (auto* service : services()) std::fprintf(stderr, "--- log\n%s", service->log().c_str());
    }
};

}  // namespace skald::test
