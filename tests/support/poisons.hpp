// Deliveries that no service can take for a step, whichever it is sent to: malformed in every way that AMQP can carry.
#pragma once

#include "support/amqp_hands.hpp"

#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace skald::test {

/// What makes a good delivery a bad one.
struct poison
{
    std::string name;
    std::function<void(raw_message&)> apply;
};

namespace poison_detail {

inline amqp_field_value_t field(std::uint8_t kind)
{
    amqp_field_value_t made{};
    made.kind = kind;
    return made;
}

inline amqp_field_value_t nested_tables(int depth)
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

inline std::string random_bytes(std::size_t size)
{
    std::mt19937 random{7};
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(random());
    return bytes;
}

inline void add(std::vector<poison>& all, std::string name, std::function<void(raw_message&)> apply)
{
    all.push_back({std::move(name), std::move(apply)});
}

inline void add_body(std::vector<poison>& all, std::string const& name, std::string text)
{
    add(all, "body: " + name, [text = std::move(text)](raw_message& m) { m.body = text; });
}

inline void add_bodies(std::vector<poison>& all)
{
    auto const with_member = [](std::string const& value) {
        return R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1,"more":)" + value + '}';
    };

    add_body(all, "empty", "");
    add_body(all, "one byte", "{");
    add_body(all, "truncated UTF-8", with_member("\"\xe2\x82\""));
    add_body(all, "overlong UTF-8", with_member("\"\xc0\xaf\""));
    add_body(all, "lone surrogate", with_member(R"("\ud800")"));
    add_body(all, "NUL", with_member(R"("\u0000")"));
    add_body(all, "a raw zero byte", std::string("\0\0\0", 3));
    add_body(all, "65 deep", with_member(std::string(65, '[') + std::string(65, ']')));
    add_body(all, "100,000 deep", std::string(100'000, '[') + std::string(100'000, ']'));
    add_body(all, "duplicate names", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1,"cents":2})");
    add_body(all, "1e400", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":1e400})");
    add_body(all, "2^63", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":9223372036854775808})");
    add_body(all, "2^64", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":18446744073709551616})");
    add_body(all, "2^32 + 1 for an int", R"({"id":"p","customer":"ann","sku":"lamp","quantity":4294967297,"cents":1})");
    add_body(all, "NaN", R"({"id":"p","customer":"ann","sku":"lamp","quantity":1,"cents":NaN})");
    add_body(all, "null", "null");
    add_body(all, "an array", "[]");
    add_body(all, "a text for a number", R"({"id":"p","customer":"ann","sku":"lamp","quantity":"1","cents":1})");
    add_body(all, "a member missing", R"({"id":"p"})");
    add_body(all, "gzip", "\x1f\x8b\x08\x01\x02\x03");
    add_body(all, "random bytes", random_bytes(4096));
    add_body(all, "1 MiB of nothing", std::string(1024 * 1024, ' '));
    add_body(all, "1 MiB + 1 of a text", '"' + std::string(1024 * 1024 - 1, 'x') + '"');
    add_body(all, "8 MiB of open brackets", std::string(8 * 1024 * 1024, '['));
}

inline void add_bad_headers(std::vector<poison>& all)
{
    for (auto const* name : {"x-idempotency-key", "x-saga", "x-saga-itinerary", "x-saga-home"}) {
        add(all, std::string{"no "} + name, [name](raw_message& m) { m.remove(name); });
        add(all, std::string{"empty "} + name, [name](raw_message& m) { m.set(name, ""); });
        add(all, std::string{"oversized "} + name, [name](raw_message& m) { m.set(name, std::string(100'000, 'x')); });
        add(all, std::string{"not UTF-8 "} + name, [name](raw_message& m) { m.set(name, "caf\xe9\x80"); });
        add(all, std::string{"a zero byte in "} + name,
            [name](raw_message& m) { m.set(name, std::string("a\0:b", 4)); });
    }
    add(all, "oversized scope", [](raw_message& m) { m.set("x-saga-scope", std::string(65, 's')); });
    add(all, "huge random scope", [](raw_message& m) { m.set("x-saga-scope", random_bytes(60'000)); });
    add(all, "no headers at all", [](raw_message& m) { m.headers.clear(); });
    add(all, "no type",
        [](raw_message& m) { m.properties._flags &= ~static_cast<amqp_flags_t>(AMQP_BASIC_TYPE_FLAG); });
    add(all, "another type", [](raw_message& m) { m.set_type("arrange-lunch"); });
    add(all, "a type in capitals", [](raw_message& m) { m.set_type("CHARGE-PAYMENT"); });
}

inline void add_bad_keys(std::vector<poison>& all)
{
    add(all, "key of 181 bytes",
        [](raw_message& m) { m.set("x-idempotency-key", std::string(181, 'k') + ':' + m.type()); });
    add(all, "key with no step", [](raw_message& m) { m.set("x-idempotency-key", "poison"); });
    add(all, "key with an empty step", [](raw_message& m) { m.set("x-idempotency-key", "poison:"); });
    add(all, "an empty key", [](raw_message& m) { m.set("x-idempotency-key", ":" + m.type()); });
    add(all, "key of another step", [](raw_message& m) { m.set("x-idempotency-key", "poison:other-step"); });
    add(all, "key of the compensation on the way forward",
        [](raw_message& m) { m.set("x-idempotency-key", m.header("x-idempotency-key") + ".compensate"); });
    for (auto const* number : {"0", "-1", "x", "2000000001", "99999999999999999999", "1.5", " 1", "+1", "0x1"})
        for (auto const* name : {"x-attempt", "x-saga-version"})
            add(all, std::string{name} + " is " + number, [=](raw_message& m) { m.set(name, number); });
}

inline void add_bad_itineraries(std::vector<poison>& all)
{
    for (auto const* plan : {"forward",
                             "forward 1",
                             "forward 1/1",
                             "forward 0/1 a@b=pivot",
                             "forward 2/1 a@b=pivot",
                             "sideways 1/1 a@b=pivot",
                             "forward 1/99999999999999999999 a@b=pivot",
                             "forward 1/1 a@b=",
                             "forward 1/1 a@b=other",
                             "forward 1/1 @=pivot",
                             "forward -1/1 a@b=pivot",
                             "back 1/1 a@b=pivot",
                             "forward 1/2 a@b=retriable c@d=pivot",
                             "forward 1/2 a@b=pivot c@d=pivot",
                             "forward 1/1  a@b=pivot",
                             "forward 1/1 a@b=pivot ",
                             "FORWARD 1/1 a@b=pivot",
                             "forward 1/1000 a@b=pivot",
                             "\n",
                             "forward 1/1 a@b=pivot\nforward 1/1 a@b=pivot"})
        add(all, std::string{"itinerary "} + plan, [=](raw_message& m) { m.set("x-saga-itinerary", plan); });
    add(all, "a step that no one hosts", [](raw_message& m) {
        m.set("x-saga-itinerary", "forward 1/1 unknown@" + m.destination + "=pivot");
        m.set("x-idempotency-key", "poison:unknown");
        m.set_type("unknown");
    });
    add(all, "a step of another service",
        [](raw_message& m) { m.set("x-saga-itinerary", "forward 1/1 " + m.type() + "@elsewhere=pivot"); });
    add(all, "a definition that no one hosts", [](raw_message& m) { m.set("x-saga", "place-lunch"); });
}

inline void add_odd_kinds(std::vector<poison>& all)
{
    for (int const kind : {AMQP_FIELD_KIND_F32, AMQP_FIELD_KIND_F64, AMQP_FIELD_KIND_DECIMAL, AMQP_FIELD_KIND_VOID,
                           AMQP_FIELD_KIND_BYTES, AMQP_FIELD_KIND_ARRAY, AMQP_FIELD_KIND_TABLE})
        add(all, "a header of kind " + std::to_string(kind),
            [kind](raw_message& m) { m.set("x-saga-reason", field(static_cast<std::uint8_t>(kind))); });
    for (int const kind :
         {AMQP_FIELD_KIND_BOOLEAN, AMQP_FIELD_KIND_I8, AMQP_FIELD_KIND_U8, AMQP_FIELD_KIND_I16, AMQP_FIELD_KIND_U16,
          AMQP_FIELD_KIND_I32, AMQP_FIELD_KIND_U32, AMQP_FIELD_KIND_I64, AMQP_FIELD_KIND_TIMESTAMP})
        add(all, "a key of kind " + std::to_string(kind),
            [kind](raw_message& m) { m.set("x-idempotency-key", field(static_cast<std::uint8_t>(kind))); });
    add(all, "tables, 50 deep", [](raw_message& m) { m.set("x-saga-reason", nested_tables(50)); });
    add(all, "a thousand headers", [](raw_message& m) {
        for (int i = 0; i < 1000; ++i) m.add("x-" + std::to_string(i), text_field("v"));
        m.remove("x-saga");
    });
}

}  // namespace poison_detail

inline std::vector<poison> all_poisons()
{
    std::vector<poison> all;
    poison_detail::add_bodies(all);
    poison_detail::add_bad_headers(all);
    poison_detail::add_bad_keys(all);
    poison_detail::add_bad_itineraries(all);
    poison_detail::add_odd_kinds(all);
    return all;
}

}  // namespace skald::test
