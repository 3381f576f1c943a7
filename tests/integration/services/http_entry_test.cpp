// POST /orders and GET /sagas/{key} over plain sockets: keys, scopes, replays, bad input.
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "support/shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

/// What must be the same in a replayed answer: everything but the date and the mark of a replay.
std::string comparable(raw_answer const& answer)
{
    std::string text;
    for (std::size_t at = 0; at < answer.head.size();) {
        auto const end = answer.head.find("\r\n", at);
        auto const line = answer.head.substr(at, end - at);
        if (!line.starts_with("Date:") && !line.starts_with("Idempotency-Replayed:")) text += line + '\n';
        at = end + 2;
    }
    return text + answer.body;
}

}  // namespace

TEST_CASE("a key that is missing or malformed is answered with 400, and nothing is started")
{
    shop s;
    s.open();
    auto const body = order_request{}.body();
    std::vector<std::string> const bad{"",
                                       "\"\"",
                                       "\"open",
                                       "a b",
                                       "a,b",
                                       "a\"b",
                                       std::string(181, 'k'),
                                       '"' + std::string(181, 'k') + '"',
                                       "\"a\" \"b\"",
                                       "k\x7f",
                                       "caf\xc3\xa9",
                                       "\"a\\n\"",
                                       "\"a\";=",
                                       "k;"};
    for (auto const& key : bad) {
        auto const answer = s.connect().ask(shop::post(key, body));
        CHECK_MESSAGE(answer.status == 400, "key ", key);
        CHECK(answer.value_of("Content-Type") == "application/problem+json");
    }
    CHECK(s.connect().ask(shop::post("a", body, "Idempotency-Key: b\r\n")).status == 400);
    CHECK(s.orders_db.count("skald.idempotency") == 0);
    CHECK(s.orders_db.count("customer_order") == 0);
    CHECK(s.orders_db.count("skald.outbox") == 0);
    s.close_in_order();
}

TEST_CASE("keys of every printable byte and of the greatest length work to the end, and are found again")
{
    shop s;
    s.open();
    std::string printable;
    for (char c = 0x20; c < 0x7f; ++c)
        if (c == '"' || c == '\\') (printable += '\\') += c;
        else printable += c;
    // As sent, and as the path of the saga.
    std::map<std::string, std::string> const keys{
        {'"' + std::string(180, 'k') + '"', std::string(180, 'k')},
        {"\"a b\"", "a%20b"},
        {"\"a/b?c#d%41\"", "a%2Fb%3Fc%23d%2541"},
        {"a:b:c", "a%3Ab%3Ac"},
        {"\"x:charge-payment.compensate\"", "x%3acharge-payment.compensate"},
        {"\" \"", "%20"},
        {"'); DROP TABLE wallet; --", ""},
        {"\"'); DROP TABLE charge; --\"", "%27%29%3B%20DROP%20TABLE%20charge%3B%20--"},
        {"\"$skald$ $1 \\\\x00\"", "%24skald%24%20%241%20%5Cx00"},
        {'"' + printable + '"', ""},
    };
    for (auto const& [key, path] : keys) {
        auto const answer = s.order(key);
        if (path.empty() && key.front() != '"') {
            CHECK(answer.status == 400);
            continue;
        }
        REQUIRE_MESSAGE(answer.status == 202, key);
        auto const location = answer.value_of("Location");
        CHECK_MESSAGE(wait_until([&] { return s.status(location.substr(7)) == "completed"; }), location);
        if (!path.empty()) CHECK_MESSAGE(s.status(path) == "completed", path);
    }
    CHECK(s.payments_db.count("charge") == 9);
    CHECK(s.parked_in_all() == 0);
    CHECK(s.get("/sagas/%").status == 400);
    CHECK(s.get("/sagas/%zz").status == 400);
    CHECK(s.get("/sagas/nobody").status == 404);
    CHECK(s.get("/sagas/" + std::string(181, 'k')).status == 404);
    CHECK(s.get("/sagas/caf%C3%A9").status == 404);
    s.close_in_order();
}

TEST_CASE("the path in Location leads to the saga also where a client removes dot segments")
{
    shop s;
    s.open();
    for (std::string const key : {".", ".."}) {
        auto const answer = s.order('"' + key + '"');
        REQUIRE(answer.status / 100 != 5);
        // RFC 3986 5.2.4: a client turns /sagas/.. into /. Such a key may be refused; it may not be accepted and lost.
        if (answer.status != 202) continue;
        auto const location = answer.value_of("Location");
        CHECK_MESSAGE(location != "/sagas/" + key, location);
    }
    s.close_in_order();
}

TEST_CASE("a derived key of a running saga, sent as an HTTP key, is an order of its own")
{
    shop s;
    s.start_all();
    s.payments.terminate();
    s.fill();
    REQUIRE(s.order("X").status == 202);
    for (std::string const key : {"X:charge-payment", "X:create-order", "X:charge-payment.compensate", "X:"})
        REQUIRE(s.order(key).status == 202);
    s.payments.start();
    REQUIRE(s.all_end());
    CHECK(s.payments_db.count("charge") == 5);
    CHECK(s.shipping_db.count("shipment") == 5);
    CHECK(s.status("X") == "completed");
    CHECK(s.status("X%3Acharge-payment") == "completed");
    s.check_books(100001, 1000);
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}

TEST_CASE("the same key in two scopes is two orders, and neither sees the other's saga")
{
    shop s;
    s.open();
    auto const one = s.order("k", {}, "X-Scope: one\r\n");
    auto const two = s.order("k", {.cents = 7}, "X-Scope: two\r\n");
    REQUIRE(one.status == 202);
    REQUIRE(two.status == 202);
    CHECK(two.value_of("Idempotency-Replayed").empty());
    CHECK(one.body != two.body);
    REQUIRE(s.all_end());
    CHECK(s.status("k") == "404");
    CHECK(s.status("k", "X-Scope: three\r\n") == "404");
    CHECK(s.status("k", "X-Scope: one\r\n") == "completed");
    CHECK(s.status("k", "X-Scope: two\r\n") == "completed");
    CHECK(s.order("k", {}, "X-Scope: one\r\n").body == one.body);
    CHECK(s.order("k", {.cents = 7}, "X-Scope: two\r\n").body == two.body);
    CHECK(s.payments_db.count("charge") == 2);
    CHECK(s.order("k2", {}, "X-Scope: " + std::string(65, 's') + "\r\n").status == 400);
    CHECK(s.order("k2", {}, "X-Scope: caf\xe9\r\n").status == 400);
    CHECK(s.orders_db.count("customer_order") == 2);
    s.close_in_order();
}

TEST_CASE("a scope of any text works to the end")
{
    shop s;
    s.open();
    for (std::string const scope : {"caf\xc3\xa9", "'); DROP TABLE charge; --", "\\ \" $1 \xf0\x9f\x98\x80", "a\tb",
                                    "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"}) {
        auto const field = "X-Scope: " + scope + "\r\n";
        CHECK_MESSAGE(s.order("k", {}, field).status == 202, scope);
        CHECK_MESSAGE(wait_until([&] { return s.status("k", field) == "completed"; }), scope);
    }
    CHECK(s.payments_db.count("charge") == 5);
    s.close_in_order();
}

TEST_CASE("orders that are sent one after the other without waiting are each answered, in order")
{
    shop s;
    s.open();
    auto client = s.connect();
    std::string all;
    for (int i = 0; i < 20; ++i) all += shop::post("p" + std::to_string(i / 2), order_request{}.body());
    client.send(all);
    for (int i = 0; i < 20; ++i) {
        auto const answer = client.read_answer();
        CHECK(answer.status == 202);
        CHECK(answer.value_of("Location") == "/sagas/p" + std::to_string(i / 2));
        CHECK((answer.value_of("Idempotency-Replayed") == "true") == (i % 2 == 1));
    }
    CHECK(s.all_end());
    CHECK(s.payments_db.count("charge") == 10);
    s.close_in_order();
}

TEST_CASE("two X-Scope headers are not an order of the first scope")
{
    shop s;
    s.open();
    // A proxy that appends instead of replacing would let the client choose.
    CHECK(s.order("k", {}, "X-Scope: one\r\nX-Scope: two\r\n").status == 400);
    s.close_in_order();
}

TEST_CASE("the same request again is answered byte for byte the same, marked as a replay")
{
    shop s;
    s.open();
    auto const first = s.order("k");
    for (std::string const spelling : {"k", "\"k\"", " k "}) {
        auto const again = s.order(spelling);
        CHECK(comparable(again) == comparable(first));
        CHECK(again.value_of("Idempotency-Replayed") == "true");
        CHECK(again.value_of("Location") == "/sagas/k");
    }
    REQUIRE(s.ends("k", "completed"));
    CHECK(comparable(s.order("k")) == comparable(first));
    CHECK(s.order("k", {.cents = 101}).status == 422);
    auto const other_query =
        s.connect().ask("POST /orders?a=1 HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: k\r\n"
                        "Content-Length: " +
                        std::to_string(order_request{}.body().size()) + "\r\n\r\n" + order_request{}.body());
    CHECK(other_query.status == 422);
    CHECK(s.connect().ask(shop::post("k", order_request{}.body() + " ")).status == 422);
    CHECK(s.orders_db.count("customer_order") == 1);
    s.orders.terminate();
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(comparable(s.order("k")) == comparable(first));
    s.close_in_order();
}

TEST_CASE("one key from sixteen clients at once is one order, and everybody else is told so")
{
    shop s;
    s.open();
    for (int round = 0; round < 10; ++round) {
        auto const key = "race-" + std::to_string(round);
        std::atomic<int> fresh{0}, replayed{0}, busy{0}, other{0};
        std::mutex mutex;
        std::string slowest;
        std::vector<std::jthread> clients;
        for (int i = 0; i < 16; ++i)
            clients.emplace_back([&] {
                auto const answer = s.order(key);
                if (answer.status == 409 && !answer.value_of("Retry-After").empty()) ++busy;
                else if (answer.status != 202) ++other;
                else ++(answer.value_of("Idempotency-Replayed") == "true" ? replayed : fresh);
            });
        clients.clear();
        CHECK(fresh == 1);
        CHECK(other == 0);
        CHECK(fresh + replayed + busy == 16);
    }
    REQUIRE(s.all_end());
    CHECK(s.payments_db.count("charge") == 10);
    s.close_in_order();
}

TEST_CASE("a key in flight is answered with 409 at once, not after a wait for the row's lock")
{
    shop s;
    s.open();
    s.orders_db.slow_down("customer_order", 2s);
    auto first = s.connect();
    first.send(shop::post("k", order_request{}.body()));
    REQUIRE(wait_until([&] { return s.orders_db.is_slow_now(); }));
    auto second = s.connect();
    auto const begin = std::chrono::steady_clock::now();
    auto const answer = second.ask(shop::post("k", order_request{}.body()));
    auto const took = std::chrono::steady_clock::now() - begin;
    CHECK(answer.status == 409);
    CHECK(!answer.value_of("Retry-After").empty());
    CHECK(took < std::chrono::milliseconds{500});  // 100 ms on an idle machine
    CHECK(first.read_answer().status == 202);
    s.close_in_order();
}

TEST_CASE("a body that can't be taken is answered with 400, stores nothing, and the key can be used afterwards")
{
    shop s;
    s.open();
    std::vector<std::string> const bad{
        "",
        "{",
        "null",
        "[]",
        "42",
        "\"text\"",
        "{}",
        std::string(1, '\0'),
        "\xff\xfe",
        "{\"customer\":\"ann\"}",
        R"({"customer":"ann","sku":"lamp","quantity":"1","cents":1})",
        R"({"customer":1,"sku":"lamp","quantity":1,"cents":1})",
        R"({"customer":null,"sku":"lamp","quantity":1,"cents":1})",
        R"({"customer":"ann","sku":"lamp","quantity":4294967297,"cents":1})",
        R"({"customer":"ann","sku":"lamp","quantity":2147483648,"cents":1})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":18446744073709551616})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":1e400})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":1e19})",
        R"({"customer":"ann","sku":"lamp","quantity":1.5,"cents":1})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":0.5})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":NaN})",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":1,"cents":2})",
        R"({"customer":"a\u0000n","sku":"lamp","quantity":1,"cents":1})",
        R"({"customer":"\ud800","sku":"lamp","quantity":1,"cents":1})",
        "{\"customer\":\"\xc3\x28\",\"sku\":\"lamp\",\"quantity\":1,\"cents\":1}",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":1}x)",
        R"({"customer":"ann","sku":"lamp","quantity":1,"cents":1,"more":)" + std::string(70, '[') +
            std::string(70, ']') + "}",
        std::string(100'000, '['),
    };
    for (auto const& body : bad) {
        auto const answer = s.connect().ask(shop::post("same", body));
        CHECK_MESSAGE(answer.status == 400, body.substr(0, 80));
        CHECK(answer.value_of("Content-Type") == "application/problem+json");
        CHECK_MESSAGE(s.orders_db.count("skald.idempotency") == 0, body.substr(0, 80));
    }
    CHECK(s.orders_db.count("customer_order") == 0);
    CHECK(s.order("same").status == 202);
    CHECK(s.ends("same", "completed"));
    s.close_in_order();
}

TEST_CASE("a number beyond 64 signed bits does not come out of the type as a negative one")
{
    shop s;
    s.open();
    for (std::string const number : {"9223372036854775808", "18446744073709551615", "18446744073709551611"}) {
        CAPTURE(number);
        CHECK(
            s.connect()
                .ask(shop::post("c" + number, R"({"customer":"ann","sku":"lamp","quantity":1,"cents":)" + number + "}"))
                .status == 400);
        CHECK(
            s.connect()
                .ask(shop::post("q" + number, R"({"customer":"ann","sku":"lamp","cents":1,"quantity":)" + number + "}"))
                .status == 400);
        // It does not fit the type, which is no outcome: nothing is stored, and the client may send it right.
        CHECK(s.orders_db.count("skald.idempotency") == 0);
    }
    s.close_in_order();
}

TEST_CASE("true is not a quantity, and false is not a price")
{
    shop s;
    s.open();
    CHECK(s.connect().ask(shop::post("a", R"({"customer":"ann","sku":"lamp","quantity":true,"cents":1})")).status ==
          400);
    CHECK(s.connect().ask(shop::post("b", R"({"customer":"ann","sku":"lamp","quantity":1,"cents":false})")).status ==
          400);
    CHECK(s.orders_db.count("customer_order") == 0);
    s.close_in_order();
}

TEST_CASE("a price that no double can hold is not rounded in silence")
{
    shop s;
    s.open();
    auto const answer =
        s.connect().ask(shop::post("a", R"({"customer":"ann","sku":"lamp","quantity":1,"cents":9007199254740993.0})"));
    if (answer.status == 202) CHECK(s.orders_db.value("SELECT cents FROM customer_order") == "9007199254740993");
    else CHECK(answer.status == 400);
    s.close_in_order();
}

TEST_CASE("a refusal of the handler is the outcome, and is replayed")
{
    shop s;
    s.open();
    auto const first = s.order("k", {.quantity = 0});
    CHECK(first.status == 400);
    auto const again = s.order("k", {.quantity = 0});
    CHECK(comparable(again) == comparable(first));
    CHECK(again.value_of("Idempotency-Replayed") == "true");
    CHECK(s.order("k").status == 422);
    CHECK(s.orders_db.count("customer_order") == 0);
    CHECK(s.get("/sagas/k").status == 404);
    CHECK(s.get("/orders").status == 405);
    CHECK(s.get("/nothing").status == 404);
    CHECK(s.get("/livez").status == 200);
    CHECK(s.get("/readyz").status == 200);
    s.close_in_order();
}

TEST_CASE("an order with the largest body that is taken completes")
{
    shop s;
    s.open();
    order_request large{.customer = "ann", .sku = "lamp", .quantity = 1, .cents = 100};
    std::string text;
    while (text.size() < 200'000) text += "caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8 ";
    large.customer = text;
    s.payments_db.ask("ALTER TABLE wallet DROP CONSTRAINT wallet_pkey");
    s.payments_db.ask("INSERT INTO wallet VALUES ('" + text + "', 100)");
    REQUIRE(s.order("k", large).status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}
