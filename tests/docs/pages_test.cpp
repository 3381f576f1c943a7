// The programs of README.md, docs/concepts.md and docs/http.md, built from the pages as they
// stand, do what the pages say.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

std::string const shown_order = R"({"id":"o-1","customer":"ada","cents":300})";

/// A program of a page, with the database of its service and Skald's tables in it.
struct page
{
    fresh_database database;
    service_process program;

    page(std::string const& service, std::string const& path, std::vector<std::string> arguments = {})
        : database{service}, program{path, std::move(arguments), shop::variables(database)}
    {
        service_process migrate{SKALD_TOOL, {"migrate", "--service", service}, shop::variables(database)};
        REQUIRE_MESSAGE(migrate.run().code == 0, migrate.log());
    }
    ~page()
    {
        if (std::uncaught_exceptions() > 0) std::fputs(program.log().c_str(), stderr);
    }

    void start()
    {
        program.start();
        REQUIRE_MESSAGE(wait_until([&] { return program.has_logged("worker.started"); }), program.log());
    }
    void start_order(std::string const& key, std::string const& itinerary, std::string const& data)
    {
        database.ask("SELECT skald.start('', '" + key + "', 'place-order', 1, '" + data + "', '" + itinerary +
                     "', sha256(convert_to('" + data + "', 'UTF8')), 'payments', 'charge-payment', convert_to('" +
                     data + "', 'UTF8'), jsonb_build_object('x-idempotency-key', '" + key +
                     ":charge-payment', 'x-saga-scope', '', 'x-saga', 'place-order', 'x-saga-itinerary', '" +
                     itinerary + "'))");
    }
    std::string saga(std::string const& key)
    {
        return database.value("SELECT status FROM skald.saga WHERE key = '" + key + "'");
    }
    std::string record(std::string const& step)
    {
        auto const rows = database.ask("SELECT status FROM skald.idempotency WHERE step = '" + step + "'");
        return rows.empty() ? "none" : rows[0][0];
    }
};

std::string put(std::string const& target, std::string const& headers, std::string const& body)
{
    return "PUT " + target + " HTTP/1.1\r\nHost: a\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

std::string post(std::string const& target, std::string const& headers, std::string const& body)
{
    return "POST" + put(target, headers, body).substr(3);
}

std::string const itinerary = "charge-payment@payments=compensatable arrange-shipping@shipping=pivot";

}  // namespace

TEST_CASE("README: the service charges a wallet once, refunds it once, and leaves it alone where it says no")
{
    page payments{"payments", SKALD_README};
    payments.start();  // it makes its table
    payments.database.ask("INSERT INTO wallet VALUES ('ada', 1000)");
    auto const cents = [&] { return payments.database.value("SELECT cents FROM wallet"); };

    payments.start_order("order-1", "forward 1/2 " + itinerary, shown_order);
    REQUIRE(wait_until([&] { return payments.record("charge-payment") == "completed"; }));
    CHECK(cents() == "700");

    // What a shipping service of another make sends when there is no stock.
    payments.database.ask(
        "SELECT skald.enqueue('payments', 'charge-payment', 'order-1:charge-payment.compensate', convert_to('" +
        shown_order +
        "', 'UTF8'), jsonb_build_object('x-idempotency-key', 'order-1:charge-payment.compensate', "
        "'x-saga-scope', '', 'x-saga', 'place-order', 'x-saga-home', 'payments', 'x-saga-reason', 'out of stock', "
        "'x-saga-itinerary', 'back 1/2 " +
        itinerary + "'))");
    REQUIRE(wait_until([&] { return payments.saga("order-1") == "compensated"; }));
    CHECK(cents() == "1000");

    payments.start_order("order-2", "forward 1/2 " + itinerary, R"({"id":"o-2","customer":"ada","cents":5000})");
    REQUIRE(wait_until([&] { return payments.saga("order-2") == "compensated"; }));
    CHECK(payments.database.value("SELECT reason FROM skald.saga WHERE key = 'order-2'") == "insufficient funds");
    CHECK(cents() == "1000");
    CHECK(payments.program.terminate().code == 0);
}

TEST_CASE(
    "docs/concepts.md: a saga from a transaction, from a request and with a deadline; its first step takes a room")
{
    page hotels{"hotels", SKALD_CONCEPTS, {"--listen", "127.0.0.1:0"}};
    hotels.database.ask("CREATE TABLE basket (id bigint, closed boolean)");
    hotels.database.ask("CREATE TABLE hotel (city text, rooms integer)");
    hotels.database.ask("INSERT INTO hotel VALUES ('Oslo', 5), ('Rome', 5)");
    hotels.start();

    raw_client client{hotels.program.http_port()};
    auto const trip = R"({"id":"1","city":"Oslo","cents":1})";
    auto const answer = client.ask(post("/trips", "Idempotency-Key: trip-1\r\n", trip));
    CHECK(answer.status == 202);
    CHECK(answer.value_of("Location") == "/sagas/trip-1");
    CHECK(client.ask(post("/trips", "Idempotency-Key: trip-1\r\n", trip)).has("Idempotency-Replayed: true"));
    CHECK(client.ask(post("/trips", "Idempotency-Key: trip-2\r\n", R"({"id":"2","city":"","cents":1})")).status == 400);

    CHECK(wait_until([&] {
        return hotels.database.value("SELECT string_agg(rooms::text, ' ' ORDER BY city) FROM hotel") == "3 4";
    }));
    auto const sagas = hotels.database.ask("SELECT key, deadline_at IS NOT NULL FROM skald.saga ORDER BY key");
    CHECK(sagas == table{{"basket-42", "f"}, {"basket-43", "t"}, {"trip-1", "f"}});
    CHECK(hotels.program.terminate().code == 0);
}

TEST_CASE(
    "docs/http.md: a route writes once for each key, and the last function of those given says whose request it is")
{
    page wallets{"wallets", SKALD_HTTP, {"--listen", "127.0.0.1:0"}};
    wallets.database.ask("CREATE TABLE wallet (owner text, cents bigint)");
    wallets.start();

    raw_client client{wallets.program.http_port()};
    std::string const key = "X-Api-Key: a\r\nIdempotency-Key: k\r\n";
    auto const refused = client.ask(put("/wallets/ada", "Idempotency-Key: k\r\n", "5"));
    CHECK(refused.status == 401);
    CHECK(refused.value_of("WWW-Authenticate") == "ApiKey");
    CHECK(client.ask(put("/wallets/ada", "X-Api-Key: a\r\n", "5")).status == 400);
    CHECK(client.ask(put("/wallets/ada", key, "5.9")).status == 400);
    CHECK(client.ask(put("/wallets/ada", key, "5")).status == 204);
    CHECK(client.ask(put("/wallets/ada", key, "5")).has("Idempotency-Replayed: true"));
    CHECK(client.ask(put("/wallets/ada", key, "6")).status == 422);
    CHECK(wallets.database.ask("SELECT owner, cents FROM wallet") == table{{"ada", "5"}});
    CHECK(wallets.database.value("SELECT DISTINCT scope FROM skald.idempotency") == "tenant-1");
    CHECK(wallets.program.terminate().code == 0);
}
