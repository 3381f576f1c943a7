// Signatures of messages: the same in every language, and broken by any change of what decides what is done.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/envelope.hpp"
#include "core/signature.hpp"

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace skald::core;
using nlohmann::json;

namespace {

json const& vectors()
{
    static json const all = json::parse(std::ifstream{SKALD_SIGNATURE_VECTORS});
    return all;
}

signing_key key_number(std::size_t n)
{
    return signing_key::parse(vectors()["keys"].at(n)["hex"].get<std::string>()).value();
}

message message_of(json const& from)
{
    message m;
    m.destination = from["destination"];
    m.id = from["message_id"];
    m.type = from["type"];
    m.content_type = from["content_type"];
    for (auto const& [name, value] : from["headers"].items()) m.headers.emplace_back(name, value.get<std::string>());
    m.body = from["body"];
    return m;
}

/// A compensation with every header that there is.
message full()
{
    return message_of(vectors()["vectors"].at(1)["message"]);
}

std::string reason(key_ring const& keys, message const& m)
{
    auto const found = keys.check(m);
    return found ? std::string{found->reason} : "";
}

void set(message& m, std::string_view name, std::string value)
{
    for (auto& [header, text] : m.headers)
        if (header == name) return void(text = std::move(value));
    m.headers.emplace_back(name, std::move(value));
}

void remove(message& m, std::string_view name)
{
    std::erase_if(m.headers, [&](auto const& one) { return one.first == name; });
}

std::string const& signature_of(message const& m)
{
    for (auto const& [name, value] : m.headers)
        if (name == signature_header) return value;
    FAIL("not signed");
    throw 0;
}

}  // namespace

TEST_CASE("HMAC-SHA-256 is that of RFC 4231")
{
    for (auto const& one : vectors()["rfc4231"]) {
        auto const key = signing_key::parse(one["key"].get<std::string>());
        REQUIRE(key);
        CHECK(key->mac_of(one["data"].get<std::string>()) == one["mac"].get<std::string>());
    }
}

TEST_CASE("what is signed, the key's id and the signature are those that another program computed")
{
    for (std::size_t n = 0; n < 2; ++n) CHECK(key_number(n).id() == vectors()["keys"].at(n)["id"].get<std::string>());
    REQUIRE(vectors()["vectors"].size() == 4);
    for (auto const& one : vectors()["vectors"]) {
        INFO(one["name"].get<std::string>());
        auto m = message_of(one["message"]);
        CHECK(signed_text(m) == one["signed_text"].get<std::string>());
        auto const n = one["key"] == vectors()["keys"].at(0)["id"] ? 0u : 1u;
        key_ring const keys{{key_number(n)}};
        keys.sign(m);
        CHECK(signature_of(m) == one["signature"].get<std::string>());
        CHECK(reason(keys, m) == "");
    }
}

TEST_CASE("every change of what decides what is done is found, whatever it is")
{
    key_ring const keys{{key_number(0)}};
    auto genuine = full();
    keys.sign(genuine);
    REQUIRE(reason(keys, genuine) == "");

    std::vector<std::pair<std::string, std::function<void(message&)>>> changes{
        {"destination", [](message& m) { m.destination = "orders"; }},
        {"id", [](message& m) { m.id += "x"; }},
        {"type", [](message& m) { m.type = "skald.expire"; }},
        {"content type", [](message& m) { m.content_type = ""; }},
        {"body", [](message& m) { m.body.back() ^= 1; }},
        {"longer body", [](message& m) { m.body += ' '; }},
        {"no body", [](message& m) { m.body.clear(); }},
        {"id and type, joined otherwise",
         [](message& m) {
             m.type = m.id.back() + m.type;
             m.id.pop_back();
         }},
        {"another plan",
         [](message& m) {
             auto plan = std::string{*find_header(m.headers, header::itinerary)};
             set(m, header::itinerary, plan.replace(plan.find("=pivot"), 6, "=retriable"));
         }},
        {"another direction",
         [](message& m) {
             auto plan = std::string{*find_header(m.headers, header::itinerary)};
             set(m, header::itinerary, plan.replace(0, 4, "forward"));
         }},
    };
    for (auto const& [name, value] : genuine.headers) {
        if (name == signature_header || name.starts_with("trace")) continue;
        changes.emplace_back(name + " changed", [name = name](message& m) { set(m, name, "other"); });
        changes.emplace_back(name + " empty", [name = name](message& m) {
            if (find_header(m.headers, name)->empty()) remove(m, name);
            else set(m, name, "");
        });
        changes.emplace_back(name + " removed", [name = name](message& m) { remove(m, name); });
        changes.emplace_back(name + " twice", [name = name](message& m) { m.headers.emplace_back(name, "other"); });
        changes.emplace_back(name + " moved to the next", [name = name](message& m) {
            auto const moved = std::string{*find_header(m.headers, name)};
            remove(m, name);
            set(m, name == header::scope ? header::definition : header::scope, moved + '!');
        });
    }
    CHECK(changes.size() == 10 + 5 * 11);
    for (auto const& [what, apply] : changes) {
        auto m = genuine;
        apply(m);
        CHECK_MESSAGE(reason(keys, m) == "forged", what);
    }
}

TEST_CASE("a header that every message of ours may have is signed, but for trace context")
{
    envelope e;
    e.saga = {"scope", "key"};
    e.definition = "d";
    e.itinerary = parse_itinerary("forward 1/1 a@b=pivot").value();
    e.home = "b";
    e.reason = "r";
    e.snoozes = 1;
    e.saga_deadline = e.step_deadline = parse_instant("2026-01-31T12:00:00.000000Z");
    e.trace.traceparent = "t";
    e.trace.tracestate = "s";
    auto const written = write_message(e, "{}");
    auto const before = signed_text(written);
    std::set<std::string> not_signed;
    for (auto const& [name, value] : written.headers) {
        auto without = written;
        remove(without, name);
        if (signed_text(without) == before) not_signed.insert(name);
    }
    CHECK(not_signed == std::set<std::string>{"traceparent", "tracestate"});
}

TEST_CASE("what others may change on the way leaves the signature whole")
{
    key_ring const keys{{key_number(0)}};
    auto m = full();
    keys.sign(m);
    set(m, "traceparent", "another");
    set(m, "x-received-from", "another broker");
    m.headers.insert(m.headers.begin(), {"x-death", "once"});
    std::ranges::reverse(m.headers);
    CHECK(reason(keys, m) == "");
}

TEST_CASE("a message without a signature is unsigned, and one with something else in its place is forged")
{
    key_ring const keys{{key_number(0)}};
    auto m = full();
    CHECK(reason(keys, m) == "unsigned");
    auto genuine = m;
    keys.sign(genuine);
    auto const good = signature_of(genuine);
    for (auto const& text : std::vector<std::string>{
             "", "none", "v1=", ":", "v1=:", good + "0", good.substr(0, good.size() - 1), "v2" + good.substr(2),
             ' ' + good, good.substr(0, good.find(':') + 1), good.substr(good.find(':')), std::string(10'000, ':')}) {
        set(m, signature_header, text);
        CHECK_MESSAGE(reason(keys, m) == "forged", text);
    }
    auto upper = good;
    for (auto& c : upper)
        if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
    set(m, signature_header, upper);
    CHECK(reason(keys, m) == "forged");  // one form, as there is one of each message
    m.headers.emplace_back(signature_header, good);
    CHECK(reason(keys, m) == "forged");
    CHECK(reason(keys, genuine) == "");
}

TEST_CASE("of two keys the first signs and both verify, and another one is named")
{
    key_ring const old{{key_number(0)}}, both{{key_number(0), key_number(1)}}, turned{{key_number(1), key_number(0)}},
        fresh{{key_number(1)}};
    auto by_old = full(), by_new = full();
    both.sign(by_old);
    turned.sign(by_new);
    CHECK(signature_of(by_old) != signature_of(by_new));
    for (auto const* ring : {&old, &both, &turned}) CHECK(reason(*ring, by_old) == "");
    for (auto const* ring : {&both, &turned, &fresh}) CHECK(reason(*ring, by_new) == "");
    auto const refused = fresh.check(by_old);
    REQUIRE(refused);
    CHECK(refused->reason == "forged");
    CHECK(refused->why.find(key_number(0).id()) != std::string::npos);
    CHECK(reason(old, by_new) == "forged");
    CHECK(turned.ids() == std::vector<std::string>{key_number(1).id(), key_number(0).id()});
}

TEST_CASE("a message that has a signature is not signed again")
{
    key_ring const keys{{key_number(0)}};
    auto m = full();
    set(m, signature_header, "");
    keys.sign(m);
    CHECK(reason(keys, m) == "forged");
}

TEST_CASE("a key has at least 32 bytes, in hexadecimal digits")
{
    std::string const digits(64, 'a');
    CHECK(signing_key::parse(digits));
    CHECK(signing_key::parse('\n' + digits + "\r\n"));
    CHECK(signing_key::parse(digits)->id() == signing_key::parse(std::string(64, 'A'))->id());
    CHECK(signing_key::parse(digits + digits));
    for (auto const& text : std::vector<std::string>{"", "a", digits.substr(2), digits + "a", digits + "xy",
                                                     digits + '\n' + digits, std::string(64, '\0')})
        CHECK_FALSE(signing_key::parse(text));
}
