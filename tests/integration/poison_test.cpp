// Deliveries that are wrong: each is parked with its reason, once, and the next good one is served.
#include "core/text.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using skald::core::message;
using skald::test::stepped_shop;

namespace {

message good_charge()
{
    stepped_shop s;
    s.order("1");
    s.run();
    return s.last_sent("charge-payment");
}

void set(message& m, std::string_view name, std::string value)
{
    for (auto& header : m.headers)
        if (header.first == name) header.second = std::move(value);
}

}  // namespace

TEST_CASE("a body that is wrong is parked as malformed, without an effect, and the consumer goes on")
{
    auto const good = good_charge();
    std::string deep(100'000, '[');
    std::pair<std::string, std::string> const bodies[]{
        {"empty", ""},
        {"one byte", "x"},
        {"truncated UTF-8", "{\"id\":\"\xc3\"}"},
        {"overlong UTF-8", "{\"id\":\"\xc0\xaf\"}"},
        {"a lone surrogate", R"({"id":"\ud800"})"},
        {"a NUL", R"({"id":"a\u0000b","customer":"ann","sku":"pen","quantity":1,"cents":1})"},
        {"65 levels", std::string(65, '[') + std::string(65, ']')},
        {"100,000 levels", deep},
        {"a name twice", R"({"id":"a","id":"b","customer":"ann","sku":"pen","quantity":1,"cents":1})"},
        {"1e400", R"({"id":"a","customer":"ann","sku":"pen","quantity":1e400,"cents":1})"},
        {"2^63 for an int64", R"({"id":"a","customer":"ann","sku":"pen","quantity":1,"cents":9223372036854775808})"},
        {"2^64", R"({"id":"a","customer":"ann","sku":"pen","quantity":1,"cents":18446744073709551616})"},
        {"2^32+1 for an int", R"({"id":"a","customer":"ann","sku":"pen","quantity":4294967297,"cents":1})"},
        {"NaN", R"({"id":"a","customer":"ann","sku":"pen","quantity":NaN,"cents":1})"},
        {"a fraction for an int", R"({"id":"a","customer":"ann","sku":"pen","quantity":1.5,"cents":1})"},
        {"a missing field", R"({"id":"a"})"},
        {"another type", R"("text")"},
        {"gzip", std::string("\x1f\x8b\x08\x00", 4)},
    };
    for (auto const& [what, body] : bodies) {
        CAPTURE(what);
        stepped_shop s;
        s.note_started("1");
        auto m = good;
        m.body = body;
        for (int i = 0; i < 2; ++i) s.transport().inject(m);
        s.run();
        CHECK(s.parked() == "payments|malformed|1");
        CHECK(s.at("payments").db.one("SELECT body = '\\x" + skald::core::to_hex(body) + "' FROM skald.parked") == "t");
        s.order("2");
        s.run();
        CHECK(s.saga_status("2") == "completed");
        CHECK(s.at("payments").db.rows("SELECT order_id, kind FROM charge") == "o-2|charge");
    }
}

TEST_CASE("headers that are wrong are parked with their name in the reason")
{
    auto const good = good_charge();
    std::pair<std::string_view, std::string> const headers[]{
        {"x-idempotency-key", ""},
        {"x-idempotency-key", "no-colon"},
        {"x-idempotency-key", std::string(181, 'k') + ":charge-payment"},
        {"x-saga-scope", std::string(65, 's')},
        {"x-saga-scope", "\xff"},
        {"x-saga", "Not A Name"},
        {"x-saga-home", ""},
        {"x-saga-itinerary", "forward 9/2 nonsense"},
        {"x-saga-version", "-1"},
        {"x-attempt", "0"},
        {"x-attempt", "99999999999999999999"},
    };
    for (auto const& [name, value] : headers) {
        CAPTURE(name);
        CAPTURE(value);
        stepped_shop s;
        s.note_started("1");
        auto m = good;
        set(m, name, value);
        s.transport().inject(m);
        s.run();
        CHECK(s.parked() == "payments|malformed|1");
        CHECK(s.at("payments").db.one("SELECT error FROM skald.parked").find(name) != std::string::npos);
    }
}

TEST_CASE("two deliveries that differ in a header alone are two that are parked")
{
    stepped_shop s;
    auto m = good_charge();
    for (auto const* version : {"x", "y", "y"}) {
        set(m, "x-saga-version", version);
        s.transport().inject(m);
    }
    s.run();
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.parked") == "2");
}

TEST_CASE("a delivery whose key, type and itinerary disagree is parked")
{
    stepped_shop s;
    s.note_started("1");
    auto m = good_charge();
    set(m, "x-idempotency-key", "1:arrange-shipping");
    s.transport().inject(m);
    m = good_charge();
    m.type = "arrange-shipping";
    s.transport().inject(m);
    s.run();
    CHECK(s.parked() == "payments|malformed|2");
}

TEST_CASE("a step that nobody hosts here is parked as unknown")
{
    stepped_shop s;
    s.note_started("1");
    auto m = good_charge();
    set(m, "x-saga", "another-saga");
    s.transport().inject(m);
    s.run();
    CHECK(s.parked() == "payments|unknown_step|1");
}

TEST_CASE("a saga whose message can't be served is stuck and says why, and does not run for ever")
{
    for (bool const malformed : {true, false}) {
        CAPTURE(malformed);
        stepped_shop s;
        auto m = s.order_up_to("charge-payment");
        if (malformed) m.body = "{}";
        else m.headers[2] = {"x-saga", "renamed-saga"};
        s.at("payments").process(skald::test::delivery_of(m));
        s.at("payments").relay_due();
        while (s.at("orders").process_one()) continue;
        CHECK(s.saga_status("1") == "stuck");
        CHECK(
            s.at("orders").db.one("SELECT reason FROM skald.saga").find(malformed ? "does not fit" : "renamed-saga") !=
            std::string::npos);
    }
}

TEST_CASE("what the transport can't read as a message is parked")
{
    stepped_shop s;
    s.note_started("1");
    s.transport().inject(good_charge(), "header x-custom is a nested table");
    s.run();
    CHECK(s.parked() == "payments|malformed|1");
    CHECK(s.at("payments").db.one("SELECT error FROM skald.parked") == "header x-custom is a nested table");
}

TEST_CASE("a report of progress that is wrong is parked")
{
    for (std::string const body :
         {"", "{", "[1]", R"([{"scope":"","key":"k","step":"UPPER","service":"s","status":"completed"}])",
          R"([{"scope":"","key":"k","step":"a","service":"s","status":"unheard-of","attempts":1,"at":"now"}])"}) {
        CAPTURE(body);
        stepped_shop s;
        s.note_started("k");
        message m;
        m.destination = "orders";
        m.type = "skald.progress";
        m.id = "k:a.progress";
        m.body = body;
        s.transport().inject(m);
        s.run();
        CHECK(s.parked() == "orders|malformed|1");
    }
}

TEST_CASE("any bytes in headers and ids are kept aside as text, and parking never fails for them")
{
    stepped_shop s;
    auto m = good_charge();
    m.id = "\xff\x00\xfe";
    m.headers.emplace_back("x-odd\xff", std::string("\x00\x01\xff'\"\\", 6));
    m.headers.emplace_back("x-long", std::string(100'000, 'l'));
    set(m, "x-idempotency-key", "'; DROP SCHEMA skald CASCADE; --");
    s.transport().inject(m);
    s.run();
    CHECK(s.parked() == "payments|malformed|1");
}
