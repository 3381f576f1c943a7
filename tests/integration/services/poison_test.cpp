// Deliveries that are wrong in every way that AMQP can carry: parked once, acked, and the next good order completes.
#include "support/poisons.hpp"
#include "support/shop.hpp"

using namespace skald::test;

namespace {

void decorate(raw_message& m)
{
    m.properties._flags |= AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
                           AMQP_BASIC_CONTENT_ENCODING_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG;
    m.properties.priority = 255;
    m.properties.reply_to = keep("skald.payments\r\nx: y");
    m.properties.timestamp = ~0ull;
    m.properties.content_encoding = keep("gzip");
    m.properties.correlation_id = keep(std::string(255, '\xff'));
}

/// One genuine delivery for each service.
std::vector<raw_message> templates(shop& s, amqp_hands& hands)
{
    hands.capture_everything();
    s.open();
    REQUIRE(s.order("genuine").status == 202);
    REQUIRE(s.ends("genuine", "completed"));
    std::vector<raw_message> found;
    for (auto& one : hands.take_captured())
        if (one.type() != "skald.progress") found.push_back(std::move(one));
    REQUIRE(found.size() == 3);
    return found;
}

void give_new_key(raw_message& m, std::string const& key)
{
    m.set("x-idempotency-key", key + ':' + m.type());
    m.set_id(key + ':' + m.type());
}

/// A delivery that the payments would take, and that no one has seen yet.
raw_message genuine_charge(shop& s, amqp_hands& hands, std::string const& key)
{
    auto const genuine = templates(s, hands);
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    give_new_key(m, key);
    return m;
}

}  // namespace

TEST_CASE("every poison is parked once with a reason and acked, and the next good order completes")
{
    shop s;
    s.parks_at_once();
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto const pids = std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()};
    // Their sagas were never started, which their home says too, of each once.
    std::string const poisons{"skald.parked WHERE reason <> 'unknown_saga'"};
    auto const all = all_poisons();
    for (std::size_t i = 0; i < genuine.size(); ++i) {
        auto& database = *s.databases().at(i);
        auto const& base = *std::ranges::find(genuine, service_names.at(i), &raw_message::destination);
        std::vector<std::string> names;
        long before = 0;
        for (auto const& [name, apply] : all) {
            auto m = base;
            give_new_key(m, "poison-" + std::to_string(names.size()));
            decorate(m);
            apply(m);
            // What was identified as one message is one parked row: the id tells these apart.
            m.set_id("poison " + std::to_string(names.size()));
            hands.send(m);
            names.push_back(name);
            bool const parked = wait_until([&] { return database.count(poisons) > before; }, std::chrono::seconds{60});
            CHECK_MESSAGE(parked, std::string{service_names.at(i)}, " did not park: ", name);
            before = database.count(poisons);
            if (!s.services().at(i)->is_running()) FAIL(std::string{service_names.at(i)}, " died of: ", name);
        }
        CHECK(database.count("skald.parked WHERE reason = '' OR error = ''") == 0);
        CHECK(database.count(poisons) == static_cast<long>(names.size()));
    }
    CHECK(s.payments_db.count("charge") == 1);
    CHECK(s.shipping_db.count("shipment") == 1);
    REQUIRE(s.order("after").status == 202);
    CHECK(s.ends("after", "completed"));
    CHECK(s.all_acked());
    CHECK(pids == std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()});
    for (auto* database : s.databases()) CHECK(database->count("skald.outbox") == 0);
    s.close_in_order();
    CHECK(s.payments_db.count(poisons) == static_cast<long>(all.size()));
}

TEST_CASE("a number beyond 64 signed bits in a delivery does not pay the customer")
{
    shop s;
    amqp_hands hands{broker()};
    auto m = genuine_charge(s, hands, "negative");
    m.body = R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":18446744073709551116})";
    hands.send(m);
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{60}));
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'ann'") == "99900");
    s.close_in_order();
}

// A broker that passes on one of the two (RabbitMQ 4) leaves nothing to doubt: that one counts.
TEST_CASE("a header that is delivered twice is ambiguous, and parked")
{
    shop s;
    amqp_hands hands{broker()};
    auto m = genuine_charge(s, hands, "twice");
    m.add("x-idempotency-key", text_field("other:charge-payment"));
    auto const delivered = hands.as_delivered(m);
    bool const ambiguous = std::ranges::count(delivered.headers, "x-idempotency-key",
                                              [](auto const& header) { return view(header.key); }) == 2;
    hands.send(m);
    auto const parked = [&] { return s.payments_db.count("skald.parked"); };
    auto const charged = [&] { return s.payments_db.count("charge"); };
    CHECK(wait_until([&] { return parked() + charged() == 2; }, std::chrono::seconds{60}));
    CHECK(parked() == (ambiguous ? 1 : 0));
    CHECK(charged() == (ambiguous ? 1 : 2));
    s.close_in_order();
}

TEST_CASE("a delivery of a scope's saga that lost its scope is not taken for another saga's")
{
    shop s;
    amqp_hands hands{broker()};
    hands.capture_everything();
    s.open();
    REQUIRE(s.order("k", {}, "X-Scope: one\r\n").status == 202);
    REQUIRE(s.all_end());
    for (auto m : hands.take_captured()) {
        if (m.type() != "charge-payment") continue;
        m.remove("x-saga-scope");
        hands.send(m);
    }
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{60}));
    CHECK(s.payments_db.count("charge") == 1);
    s.close_in_order();
}

TEST_CASE("a step of a newer version than this service knows is parked, not run on a guess")
{
    shop s;
    s.parks_at_once();
    amqp_hands hands{broker()};
    auto m = genuine_charge(s, hands, "newer");
    m.set("x-saga-version", "2");
    hands.send(m);
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{60}));
    CHECK(s.payments_db.count("charge") == 1);
    s.close_in_order();
}

TEST_CASE("an itinerary whose kind is not the step's own is parked, and hurts nobody")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    // charge-payment can say no; an itinerary that calls it retriable has no way back from there.
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    give_new_key(m, "kinds");
    m.set("x-saga-itinerary", "forward 2/2 arrange-shipping@shipping=pivot charge-payment@payments=retriable");
    m.body = R"({"id":"p","customer":"poor","sku":"lamp","quantity":1,"cents":50000})";
    hands.send(m);
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{60}));
    // arrange-shipping has no compensation.
    auto undo = *std::ranges::find(genuine, "shipping", &raw_message::destination);
    undo.set("x-idempotency-key", "genuine:arrange-shipping.compensate");
    undo.set_id("genuine:arrange-shipping.compensate");
    undo.set("x-saga-itinerary", "back 1/1 arrange-shipping@shipping=compensatable");
    hands.send(undo);
    CHECK(wait_until([&] { return s.shipping_db.count("skald.parked") == 1; }, std::chrono::seconds{60}));
    CHECK(s.status("genuine") == "completed");
    CHECK(s.payments.is_running());
    s.close_in_order();
}

TEST_CASE("deliveries of 100 MiB are parked without taking the service with them")
{
    shop s;
    amqp_hands hands{broker()};
    auto m = genuine_charge(s, hands, "huge");
    for (int i = 0; i < 2; ++i) {
        give_new_key(m, "huge-" + std::to_string(i));
        m.body = std::string(100 * 1024 * 1024, '[');
        hands.send(m);
    }
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 2; }, std::chrono::seconds{60}));
    CHECK_MESSAGE(s.payments.is_running(), s.payments.log());
    REQUIRE(s.order("after").status == 202);
    CHECK(s.ends("after", "completed"));
    MESSAGE("the service's memory afterwards: ", s.payments.resident_kib() / 1024, " MiB");
    s.close_in_order();
}

TEST_CASE("progress that can't be taken in is parked, and true progress still arrives")
{
    shop s;
    amqp_hands hands{broker()};
    hands.capture_everything();
    s.open();
    REQUIRE(s.order("first").status == 202);
    REQUIRE(s.ends("first", "completed"));
    std::vector<std::string> const bodies{
        "",
        "{",
        "{}",
        "null",
        "1",
        "[1]",
        "[[]]",
        "[{}]",
        R"([{"scope":"","key":"k"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"odd","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":1,"at":"never"}])",
        R"([{"scope":"","key":"k","step":"S","service":"x","status":"completed","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"caf)"
        "\xc3\xa9"
        R"(","step":"s","service":"x","status":"completed","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":9999999999,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":"many","at":"now"}])",
        std::string(100'000, '['),
        "\xff",
        R"([{"scope":"\u0000"}])",
    };
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        raw_message m;
        m.destination = "orders";
        m.set_type("skald.progress");
        m.set_id("progress " + std::to_string(i));
        m.body = bodies[i];
        hands.send(m);
        CHECK_MESSAGE(wait_until([&] { return s.orders_db.count("skald.parked") == static_cast<long>(i) + 1; },
                                 std::chrono::seconds{60}),
                      bodies[i].substr(0, 60));
    }
    CHECK(s.status("first") == "completed");
    REQUIRE(s.order("second", {.sku = "rare"}).status == 202);
    CHECK(s.ends("second", "compensated"));
    CHECK(wait_until([&] { return s.saga("second")["steps"][2]["status"] == "rejected"; }));
    s.close_in_order();
}

TEST_CASE("a poison that can't even be parked is kept, and the service lives")
{
    shop s;
    amqp_hands hands{broker()};
    s.open();
    // As with a role that may not write there, or a full disk.
    s.payments_db.ask("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;"
                      "CREATE TRIGGER no BEFORE INSERT ON skald.parked FOR EACH ROW EXECUTE FUNCTION no()");
    raw_message m;
    m.destination = "payments";
    m.set_type("charge-payment");
    m.body = "poison";
    hands.send(m);
    REQUIRE(wait_until([&] { return s.payments.has_logged("not now") || !s.payments.is_running(); }));
    CHECK_FALSE(wait_until([&] { return !s.payments.is_running(); }, std::chrono::seconds{8}));
    s.payments_db.ask("DROP TRIGGER no ON skald.parked");
    if (!s.payments.is_running()) s.payments.start();
    CHECK(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{40}));
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    s.close_in_order();
}

TEST_CASE("five thousand deliveries, half of them poison, leave no file and little memory behind")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto const& charge = *std::ranges::find(genuine, "payments", &raw_message::destination);
    auto const send = [&](int count) {
        for (int i = 0; i < count; ++i) {
            auto m = charge;
            if (i % 2 == 0) m.body = "poison";
            hands.send(m);
        }
        REQUIRE(wait_until([&] { return hands.waiting_in("skald.payments") == 0; }, std::chrono::seconds{60}));
    };
    send(500);
    auto const files = s.payments.open_files();
    auto const memory = s.payments.resident_kib();
    send(5000);
    CHECK(s.payments.open_files() <= files + 2);
    CHECK_MESSAGE(s.payments.resident_kib() < memory + 8 * 1024, memory, " -> ", s.payments.resident_kib());
    CHECK(s.payments_db.count("skald.parked") == 1);
    s.close_in_order();
}
