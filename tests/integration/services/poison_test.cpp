// Deliveries that are wrong in every way that AMQP can carry: parked once, acked, and the next good order completes.
#include <functional>
#include <random>

#include "support/shop.hpp"

using namespace skald::testing;

namespace {

using change = std::function<void(raw_message&)>;

struct poison
{
    std::string name;
    change apply;
};

amqp_field_value_t field(std::uint8_t kind)
{
    amqp_field_value_t made{};
    made.kind = kind;
    return made;
}

amqp_field_value_t nested_tables(int depth)
{
    static std::deque<amqp_table_entry_t> entries;
    auto inner = field(AMQP_FIELD_KIND_VOID);
    for (int i = 0; i < depth; ++i) {
        auto& entry = entries.emplace_back(amqp_table_entry_t{amqp_cstring_bytes("x"), inner});
        inner = field(AMQP_FIELD_KIND_TABLE);
        inner.value.table = {1, &entry};
    }
    return inner;
}

std::string random_bytes(std::size_t size)
{
    std::mt19937 random{7};
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(random());
    return bytes;
}

/// What no service can take for a step, whichever it is sent to.
std::vector<poison> corpus()
{
    std::vector<poison> all;
    auto const add = [&](std::string name, change apply) { all.push_back({std::move(name), std::move(apply)}); };
    auto const body = [&](std::string name, std::string text) {
        add("body: " + name, [text](raw_message& m) { m.body = text; });
    };
    auto const with_member = [](std::string const& value) {
        return R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1,"more":)" + value + '}';
    };

    body("empty", "");
    body("one byte", "{");
    body("truncated UTF-8", with_member("\"\xe2\x82\""));
    body("overlong UTF-8", with_member("\"\xc0\xaf\""));
    body("lone surrogate", with_member(R"("\ud800")"));
    body("NUL", with_member(R"("\u0000")"));
    body("a raw zero byte", std::string("\0\0\0", 3));
    body("65 deep", with_member(std::string(65, '[') + std::string(65, ']')));
    body("100,000 deep", std::string(100'000, '[') + std::string(100'000, ']'));
    body("duplicate names", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1,"cents":2})");
    body("1e400", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1e400})");
    body("2^63", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":9223372036854775808})");
    body("2^64", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":18446744073709551616})");
    body("2^32 + 1 for an int", R"({"id":"p","customer":"ann","sku":"lamp","quantity":4294967297,"cents":1})");
    body("NaN", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":NaN})");
    body("null", "null");
    body("an array", "[]");
    body("a text for a number", R"({"id":"p","customer":"ann","sku":"lamp","quantity":"1","cents":1})");
    body("a member missing", R"({"id":"p"})");
    body("gzip", "\x1f\x8b\x08\x01\x02\x03");
    body("random bytes", random_bytes(4096));
    body("1 MiB of nothing", std::string(1024 * 1024, ' '));
    body("1 MiB + 1 of a text", '"' + std::string(1024 * 1024 - 1, 'x') + '"');
    body("8 MiB of open brackets", std::string(8 * 1024 * 1024, '['));

    for (auto const* name : {"x-idempotency-key", "x-saga", "x-saga-itinerary", "x-saga-home"}) {
        add(std::string{"no "} + name, [name](raw_message& m) { m.remove(name); });
        add(std::string{"empty "} + name, [name](raw_message& m) { m.set(name, ""); });
        add(std::string{"oversized "} + name, [name](raw_message& m) { m.set(name, std::string(100'000, 'x')); });
        add(std::string{"not UTF-8 "} + name, [name](raw_message& m) { m.set(name, "caf\xe9\x80"); });
        add(std::string{"a zero byte in "} + name, [name](raw_message& m) { m.set(name, std::string("a\0:b", 4)); });
    }
    add("oversized scope", [](raw_message& m) { m.set("x-saga-scope", std::string(65, 's')); });
    add("huge random scope", [](raw_message& m) { m.set("x-saga-scope", random_bytes(60'000)); });
    add("no headers at all", [](raw_message& m) { m.headers.clear(); });
    add("no type", [](raw_message& m) { m.properties._flags &= ~static_cast<amqp_flags_t>(AMQP_BASIC_TYPE_FLAG); });
    add("another type", [](raw_message& m) { m.set_type("arrange-lunch"); });
    add("a type in capitals", [](raw_message& m) { m.set_type("CHARGE-PAYMENT"); });
    add("key of 181 bytes", [](raw_message& m) { m.set("x-idempotency-key", std::string(181, 'k') + ':' + m.type()); });
    add("key with no step", [](raw_message& m) { m.set("x-idempotency-key", "poison"); });
    add("key with an empty step", [](raw_message& m) { m.set("x-idempotency-key", "poison:"); });
    add("an empty key", [](raw_message& m) { m.set("x-idempotency-key", ":" + m.type()); });
    add("key of another step", [](raw_message& m) { m.set("x-idempotency-key", "poison:other-step"); });
    add("key of the undo on the way forward",
        [](raw_message& m) { m.set("x-idempotency-key", m.header("x-idempotency-key") + ".compensate"); });
    for (auto const* number : {"0", "-1", "x", "1000001", "99999999999999999999", "1.5", " 1", "+1", "0x1"})
        for (auto const* name : {"x-attempt", "x-saga-version"})
            add(std::string{name} + " is " + number, [=](raw_message& m) { m.set(name, number); });

    for (auto const* plan :
         {"forward", "forward 1", "forward 1/1", "forward 0/1 a@b=pivot", "forward 2/1 a@b=pivot", "sideways 1/1 a@b=pivot",
          "forward 1/99999999999999999999 a@b=pivot", "forward 1/1 a@b=", "forward 1/1 a@b=other", "forward 1/1 @=pivot",
          "forward -1/1 a@b=pivot", "back 1/1 a@b=pivot", "forward 1/2 a@b=retriable c@d=pivot",
          "forward 1/2 a@b=pivot c@d=pivot", "forward 1/1  a@b=pivot", "forward 1/1 a@b=pivot ", "FORWARD 1/1 a@b=pivot",
          "forward 1/1000 a@b=pivot", "\n", "forward 1/1 a@b=pivot\nforward 1/1 a@b=pivot"})
        add(std::string{"itinerary "} + plan, [=](raw_message& m) { m.set("x-saga-itinerary", plan); });
    add("a step that no one hosts", [](raw_message& m) {
        m.set("x-saga-itinerary", "forward 1/1 unknown@" + m.destination + "=pivot");
        m.set("x-idempotency-key", "poison:unknown");
        m.set_type("unknown");
    });
    add("a step of another service", [](raw_message& m) {
        m.set("x-saga-itinerary", "forward 1/1 " + m.type() + "@elsewhere=pivot");
    });
    add("a definition that no one hosts", [](raw_message& m) { m.set("x-saga", "place-lunch"); });

    for (int const kind : {AMQP_FIELD_KIND_F32, AMQP_FIELD_KIND_F64, AMQP_FIELD_KIND_DECIMAL, AMQP_FIELD_KIND_VOID,
                           AMQP_FIELD_KIND_BYTES, AMQP_FIELD_KIND_ARRAY, AMQP_FIELD_KIND_TABLE})
        add("a header of kind " + std::to_string(kind),
            [kind](raw_message& m) { m.add("x-odd", field(static_cast<std::uint8_t>(kind))); });
    for (int const kind : {AMQP_FIELD_KIND_BOOLEAN, AMQP_FIELD_KIND_I8, AMQP_FIELD_KIND_U8, AMQP_FIELD_KIND_I16,
                           AMQP_FIELD_KIND_U16, AMQP_FIELD_KIND_I32, AMQP_FIELD_KIND_U32, AMQP_FIELD_KIND_I64,
                           AMQP_FIELD_KIND_TIMESTAMP})
        add("a key of kind " + std::to_string(kind), [kind](raw_message& m) {
            m.set("x-idempotency-key", field(static_cast<std::uint8_t>(kind)));
        });
    add("tables, 50 deep", [](raw_message& m) { m.add("x-odd", nested_tables(50)); });
    add("a thousand headers", [](raw_message& m) {
        for (int i = 0; i < 1000; ++i) m.add("x-" + std::to_string(i), text_field("v"));
        m.remove("x-saga");
    });
    return all;
}

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

}  // namespace

TEST_CASE("every poison is parked once with a reason and acked, and the next good order completes")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto const pids = std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()};
    auto const all = corpus();
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
            bool const parked = eventually([&] { return database.count("skald.parked") > before; }, std::chrono::seconds{10});
            CHECK_MESSAGE(parked, std::string{service_names.at(i)}, " did not park: ", name);
            before = database.count("skald.parked");
            if (!s.services().at(i)->is_running()) FAIL(std::string{service_names.at(i)}, " died of: ", name);
        }
        CHECK(database.count("skald.parked WHERE reason = '' OR error = ''") == 0);
        CHECK(database.count("skald.parked") == static_cast<long>(names.size()));
    }
    CHECK(s.payments_db.count("charge") == 1);
    CHECK(s.shipping_db.count("shipment") == 1);
    REQUIRE(s.order("after").status == 202);
    CHECK(s.ends("after", "completed"));
    CHECK(s.all_acked());
    CHECK(pids == std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()});
    for (auto* database : s.databases()) CHECK(database->count("skald.outbox") == 0);
    s.close_in_order();
    CHECK(s.payments_db.count("skald.parked") == static_cast<long>(all.size()));
}

TEST_CASE("a number beyond 64 signed bits in a delivery does not pay the customer")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    give_new_key(m, "negative");
    m.body = R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":18446744073709551116})";
    hands.send(m);
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{5}));
    CHECK(s.payments_db.value("SELECT cents FROM wallet WHERE customer = 'ann'") == "99900");
    s.close_in_order();
}

// A broker that passes on one of the two (RabbitMQ 4) leaves nothing to doubt: that one counts.
TEST_CASE("a header that is delivered twice is ambiguous, and parked")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    give_new_key(m, "twice");
    m.add("x-idempotency-key", text_field("other:charge-payment"));
    auto const delivered = hands.as_delivered(m);
    bool const ambiguous = std::ranges::count(delivered.headers, "x-idempotency-key", [](auto const& header) {
                               return view(header.key);
                           }) == 2;
    hands.send(m);
    auto const parked = [&] { return s.payments_db.count("skald.parked"); };
    auto const charged = [&] { return s.payments_db.count("charge"); };
    CHECK(eventually([&] { return parked() + charged() == 2; }, std::chrono::seconds{5}));
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
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{5}));
    CHECK(s.payments_db.count("charge") == 1);
    s.close_in_order();
}

TEST_CASE("a step of a newer version than this service knows is parked, not run on a guess")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    give_new_key(m, "newer");
    m.set("x-saga-version", "2");
    hands.send(m);
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{5}));
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
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{5}));
    // arrange-shipping has no compensation.
    auto undo = *std::ranges::find(genuine, "shipping", &raw_message::destination);
    undo.set("x-idempotency-key", "genuine:arrange-shipping.compensate");
    undo.set_id("genuine:arrange-shipping.compensate");
    undo.set("x-saga-itinerary", "back 1/1 arrange-shipping@shipping=compensatable");
    hands.send(undo);
    CHECK(eventually([&] { return s.shipping_db.count("skald.parked") == 1; }, std::chrono::seconds{5}));
    CHECK(s.status("genuine") == "completed");
    CHECK(s.payments.is_running());
    s.close_in_order();
}

TEST_CASE("deliveries of 100 MiB are parked without taking the service with them")
{
    shop s;
    amqp_hands hands{broker()};
    auto const genuine = templates(s, hands);
    auto m = *std::ranges::find(genuine, "payments", &raw_message::destination);
    for (int i = 0; i < 2; ++i) {
        give_new_key(m, "huge-" + std::to_string(i));
        m.body = std::string(100 * 1024 * 1024, '[');
        hands.send(m);
    }
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 2; }, std::chrono::seconds{60}));
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
        "", "{", "{}", "null", "1", "[1]", "[[]]", "[{}]", R"([{"scope":"","key":"k"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"odd","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":1,"at":"never"}])",
        R"([{"scope":"","key":"k","step":"S","service":"x","status":"completed","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"caf)" "\xc3\xa9" R"(","step":"s","service":"x","status":"completed","attempts":1,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":9999999999,"at":"now"}])",
        R"([{"scope":"","key":"k","step":"s","service":"x","status":"completed","attempts":"many","at":"now"}])",
        std::string(100'000, '['), "\xff", R"([{"scope":"\u0000"}])",
    };
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        raw_message m;
        m.destination = "orders";
        m.set_type("skald.progress");
        m.set_id("progress " + std::to_string(i));
        m.body = bodies[i];
        hands.send(m);
        CHECK_MESSAGE(eventually([&] { return s.orders_db.count("skald.parked") == static_cast<long>(i) + 1; },
                                 std::chrono::seconds{10}), bodies[i].substr(0, 60));
    }
    CHECK(s.status("first") == "completed");
    REQUIRE(s.order("second", {.sku = "rare"}).status == 202);
    CHECK(s.ends("second", "compensated"));
    CHECK(eventually([&] { return s.saga("second")["steps"][2]["status"] == "rejected"; }));
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
    REQUIRE(eventually([&] { return s.payments.has_logged("not now") || !s.payments.is_running(); }));
    CHECK_FALSE(eventually([&] { return !s.payments.is_running(); }, std::chrono::seconds{8}));
    s.payments_db.ask("DROP TRIGGER no ON skald.parked");
    if (!s.payments.is_running()) s.payments.start();
    CHECK(eventually([&] { return s.payments_db.count("skald.parked") == 1; }, std::chrono::seconds{40}));
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
        REQUIRE(eventually([&] { return hands.waiting_in("skald.payments") == 0; }, std::chrono::seconds{60}));
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
