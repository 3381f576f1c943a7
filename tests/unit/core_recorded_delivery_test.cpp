// What is recorded comes back as it was; what is no recording is refused with the line, the field, and what to do.
#include <doctest/doctest.h>

#include "core/recorded_delivery.hpp"
#include "seeded.hpp"

#include <skald/errors.hpp>

#include <nlohmann/json.hpp>

using namespace skald::core;
using nlohmann::json;

namespace {

message charge()
{
    return {"payments",
            "order-1:charge-payment",
            "charge-payment",
            "application/json",
            {{"x-attempt", "1"}, {"x-idempotency-key", "order-1:charge-payment"}, {"x-saga-scope", ""}},
            R"({"id":"1","customer":"ådä \"q\"","cents":1200})"};
}

bool same(message const& a, message const& b)
{
    return a.destination == b.destination && a.id == b.id && a.type == b.type && a.content_type == b.content_type &&
           a.headers == b.headers && a.body == b.body;
}

message round_trip(message const& m)
{
    auto const line = write_recorded(m, {});
    CHECK_MESSAGE(line.find('\n') == std::string::npos, "one delivery is one line");
    auto const read = read_recorded(line + '\n');
    REQUIRE(read.size() == 1);
    return read[0];
}

/// A good line, for a test to spoil.
json good_line()
{
    return json::parse(write_recorded(charge(), {}));
}

std::string why_not(std::string const& lines)
try {
    read_recorded(lines);
    return {};
}
catch (skald::data_error const& error) {
    return error.what();
}

std::string why_not(char const* name, json const& value)
{
    auto line = good_line();
    line[name] = value;
    return why_not(line.dump());
}

bool has(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a recorded delivery comes back as it was")
{
    CHECK(same(round_trip(charge()), charge()));
    CHECK(json::parse(write_recorded(charge(), {}))["body"] == charge().body);
}

TEST_CASE("a body that is no text is recorded in base64, and comes back byte by byte")
{
    skald::test::seeded random{11};
    for (int i = 0; i < 300; ++i) {
        auto m = charge();
        m.body = random.bytes(0, 300);
        CHECK_MESSAGE(round_trip(m).body == m.body, "the body of case ", i);
    }
    auto m = charge();
    m.body = {'a', '\0', 'b'};
    auto const line = json::parse(write_recorded(m, {}));
    CHECK(line["body_base64"] == "YQBi");
    CHECK(!line.contains("body"));
}

TEST_CASE("an empty body, empty names and no headers come back too: a malformed delivery is a delivery")
{
    message const m{"payments", "", "", "", {}, ""};
    CHECK(same(round_trip(m), m));
}

TEST_CASE("text of every kind comes back: quotation marks, control characters, other planes")
{
    auto m = charge();
    m.headers = {{"a \"name\"", "tab\t, line\n, \x01, \xf0\x9f\x92\xa1, \xe2\x80\xa8"},
                 {"x-saga-reason", "no \\u0041"}};
    m.body = m.headers[0].second;
    CHECK(same(round_trip(m), m));
}

TEST_CASE("what can't be text in a header is escaped as it was when it was parked")
{
    auto m = charge();
    m.headers = {{"x", std::string{"a\xff\0b", 4}}};
    CHECK(round_trip(m).headers == header_list{{"x", "a\\xff\\x00b"}});
}

TEST_CASE("how it came to be parked is written for people, and not needed to read it")
{
    recorded_parking p{
        7, "shop", "order-1", "charge-payment", "attempts_exhausted", "no such table", 8, "2026-01-31T12:00:00Z", {}};
    p.record = recorded_step{"parked", 8, 1};
    auto line = json::parse(write_recorded(charge(), p));
    CHECK(line["format"] == "skald.delivery/1");
    CHECK(line["parked"] == json{{"id", 7},
                                 {"scope", "shop"},
                                 {"key", "order-1"},
                                 {"step", "charge-payment"},
                                 {"reason", "attempts_exhausted"},
                                 {"error", "no such table"},
                                 {"attempts", 8},
                                 {"parked_at", "2026-01-31T12:00:00Z"},
                                 {"record", {{"status", "parked"}, {"attempts", 8}, {"snoozes", 1}}}});
    line.erase("parked");
    line["a note of mine"] = {{"any", "thing"}};
    CHECK(same(read_recorded(line.dump()).at(0), charge()));
}

TEST_CASE("several lines are several deliveries in their order; empty lines and the ends of lines elsewhere do no harm")
{
    auto second = charge();
    second.id = "order-2:charge-payment";
    auto const read = read_recorded("\n" + write_recorded(charge(), {}) + "\r\n\n  \t\n" + write_recorded(second, {}));
    REQUIRE(read.size() == 2);
    CHECK(same(read[0], charge()));
    CHECK(same(read[1], second));
}

TEST_CASE("a recording without a delivery is refused: a test that replays nothing would pass")
{
    CHECK(has(why_not(""), "there is none"));
    CHECK(has(why_not("\n \n"), "there is none"));
}

TEST_CASE("an error names the line")
{
    CHECK(has(why_not(write_recorded(charge(), {}) + "\n\n{}\n"), "line 3: "));
}

TEST_CASE("what is not JSON Lines is refused with the way to make it so")
{
    CHECK(has(why_not(good_line().dump(2)), "`jq -c .`"));
    CHECK(has(why_not(json::array({good_line()}).dump()), "no object (array); one delivery is one line"));
    CHECK(has(why_not("payments|charge-payment"), "not JSON"));
    CHECK(has(why_not(good_line().dump().substr(0, 100)), "not JSON"));
    CHECK(has(why_not("null"), "no object"));
    CHECK(has(why_not(std::string(1'000'000, '[')), "64 levels"));
    CHECK(has(why_not(R"({"format":"skald.delivery/1","format":"skald.delivery/1"})"), "twice"));
    CHECK_MESSAGE(why_not(std::string(1'000'000, 'x')).size() < 1'000, "an error is read by people");
}

TEST_CASE("another format than this version's is refused")
{
    auto line = good_line();
    line.erase("format");
    CHECK(has(why_not(line.dump()), "no `format`"));
    CHECK(has(why_not("format", 1), "no `format`"));
    CHECK(has(why_not("format", "skald.delivery/2"), "this version of Skald reads skald.delivery/1"));
}

TEST_CASE("every member of a message is needed, and is named where it lacks")
{
    for (auto const* name : {"destination", "message_id", "type", "content_type", "headers", "body"}) {
        auto line = good_line();
        line.erase(name);
        CHECK_MESSAGE(has(why_not(line.dump()), '`' + std::string{name} + "` is missing"), name);
    }
}

TEST_CASE("a member that is no text, or too long, or no name, is refused by its name")
{
    for (auto const* name : {"destination", "message_id", "type", "content_type"}) {
        for (json const& value : {json{1}, json{}, json::object(), json{true}})
            CHECK_MESSAGE(has(why_not(name, value), '`' + std::string{name} + "` is "), name, value.dump());
        CHECK(has(why_not(name, std::string(256, 'x')), '`' + std::string{name} + "` has 256 bytes"));
    }
    for (auto const* name : {"", "Payments", "pay ments", "skald.payments", "1payments"})
        CHECK_MESSAGE(has(why_not("destination", name), "no service's name"), name);
    CHECK(has(why_not("body", {{"id", 1}}), "`body` is of the type object"));
}

TEST_CASE("headers are an object of texts")
{
    CHECK(has(why_not("headers", json::array()), "`headers` must be an object"));
    CHECK(has(why_not("headers", {{"x-attempt", 1}}), "`headers.x-attempt` is of the type number"));
    CHECK(has(why_not("headers", {{"", "x"}}), "has 0 bytes"));
    CHECK(has(why_not("headers", {{std::string(256, 'n'), "x"}}), "has 256 bytes"));
    CHECK(has(why_not("headers", {{"x", std::string(129'025, 'v')}}), "`headers.x` has 129025 bytes"));
}

TEST_CASE("a body is there once, and base64 is read strictly")
{
    CHECK(has(why_not("body_base64", "YQ=="), "both there"));
    auto line = good_line();
    line.erase("body");
    for (auto const* text : {"YQ", "YR==", "Y Q=", "*"}) {
        line["body_base64"] = text;
        CHECK_MESSAGE(has(why_not(line.dump()), "`base64 -w0` writes it"), text);
    }
    line["body_base64"] = "YQ==";
    CHECK(read_recorded(line.dump()).at(0).body == "a");
}

TEST_CASE("a good line with bytes changed at random is read or refused, and nothing else")
{
    skald::test::seeded random{23};
    auto const good = write_recorded(charge(), {});
    int read = 0;
    for (int i = 0; i < 3'000; ++i) {
        auto spoilt = good;
        for (auto n = random.number(1, 4); n > 0; --n)
            spoilt[random.number(0, spoilt.size() - 1)] = static_cast<char>(random.number(0, 255));
        read += why_not(spoilt).empty() ? 1 : 0;
    }
    CHECK_MESSAGE(read > 0, "some changes are within a text");
    CHECK(read < 3'000);
}
