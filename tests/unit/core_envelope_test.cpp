// A message's headers as an envelope: read strictly, written one way, and refused with the name of what is wrong.
#include <doctest/doctest.h>

#include "core/envelope.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <string>

using namespace skald::core;
using skald::step_kind;
using namespace std::string_literals;

namespace {

envelope charge_payment()
{
    envelope e;
    e.saga = {"tenant-1", "order:42"};
    e.definition = "place-order";
    e.version = 3;
    e.itinerary = {{{"create-order", "orders", step_kind::compensatable},
                    {"charge-payment", "payments", step_kind::compensatable},
                    {"arrange-shipping", "shipping", step_kind::pivot}},
                   {direction::forward, 1}};
    e.home = "orders";
    e.attempt = 2;
    e.snoozes = 4;
    e.trace = {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=value"};
    return e;
}

message written()
{
    return write_message(charge_payment(), R"({"cents":1})");
}

void set(message& m, std::string_view name, std::string value)
{
    auto const it = std::ranges::find(m.headers, name, &header_list::value_type::first);
    REQUIRE(it != m.headers.end());
    it->second = std::move(value);
}

message with(std::string_view name, std::string value)
{
    auto m = written();
    set(m, name, std::move(value));
    return m;
}

message without(std::string_view name)
{
    auto m = written();
    REQUIRE(std::erase_if(m.headers, [&](auto const& h) { return h.first == name; }) == 1);
    return m;
}

envelope accepted(message const& m)
{
    auto const read = read_envelope(m);
    if (auto const* no = std::get_if<refusal>(&read)) FAIL(no->why);
    return std::get<envelope>(read);
}

/// Why it is refused; empty if it is not.
std::string why(message const& m)
{
    auto const read = read_envelope(m);
    auto const* no = std::get_if<refusal>(&read);
    return no ? no->why : "";
}

bool names(std::string const& why, std::string_view header)
{
    return why.find("header " + std::string{header} + " ") != std::string::npos;
}

bool same(envelope const& a, envelope const& b)
{
    return a.saga == b.saga && a.definition == b.definition && a.version == b.version && a.itinerary == b.itinerary &&
           a.home == b.home && a.reason == b.reason && a.attempt == b.attempt && a.snoozes == b.snoozes &&
           a.trace.traceparent == b.trace.traceparent && a.trace.tracestate == b.trace.tracestate;
}

}  // namespace

TEST_CASE("a message goes to the service of its step, under the step's derived key")
{
    auto const m = written();
    CHECK(m.destination == "payments");
    CHECK(m.id == "order:42:charge-payment");
    CHECK(m.type == "charge-payment");
    CHECK(m.content_type == "application/json");
    CHECK(m.body == R"({"cents":1})");
    CHECK(find_header(m.headers, header::idempotency_key) == m.id);
    CHECK(find_header(m.headers, header::attempt) == "2");
}

TEST_CASE("what is empty is not written as a header")
{
    auto e = charge_payment();
    e.snoozes = 0;
    e.trace = {};
    auto const m = write_message(e, "");
    for (auto const name : {header::reason, header::snoozes, header::traceparent, header::tracestate}) {
        CAPTURE(name);
        CHECK_FALSE(find_header(m.headers, name).has_value());
    }
}

TEST_CASE("reading a written message gives the same envelope")
{
    auto const forward = charge_payment();
    CHECK(same(accepted(write_message(forward, "{}")), forward));

    auto back = forward.at({direction::back, 0});
    back.reason = "insufficient \xe2\x82\xac \"funds\"\n";
    CHECK(same(accepted(write_message(back, "{}")), back));
    CHECK(write_message(back, "{}").id == "order:42:create-order.compensate");
}

TEST_CASE("every header that is needed is asked for by name")
{
    for (auto const name :
         {header::idempotency_key, header::scope, header::definition, header::itinerary, header::home}) {
        CAPTURE(name);
        CHECK(names(why(without(name)), name));
    }
}

TEST_CASE("a malformed header is refused by name")
{
    struct
    {
        std::string_view header;
        std::string value;
    } const table[]{
        {header::idempotency_key, ""},
        {header::idempotency_key, "charge-payment"},
        {header::idempotency_key, "order:42:Charge"},
        {header::idempotency_key, std::string(181, 'k') + ":charge-payment"},
        {header::scope, std::string(65, 's')},
        {header::scope, "\xff"},
        {header::scope, "a\0b"s},
        {header::definition, ""},
        {header::definition, "Place Order"},
        {header::definition, std::string(49, 'a')},
        {header::version, ""},
        {header::version, "0"},
        {header::version, "-1"},
        {header::version, "1.5"},
        {header::version, "1 "},
        {header::version, "99999999999999999999"},
        {header::version, "2000000001"},
        {header::itinerary, ""},
        {header::itinerary, "forward 1/1 a@b=whatever"},
        {header::home, ""},
        {header::home, "orders.main"},
        {header::attempt, ""},
        {header::attempt, "0"},
        {header::attempt, "two"},
        {header::attempt, "2147483648"},
        {header::attempt, "2000000001"},
        {header::snoozes, "-1"},
        {header::snoozes, "x"},
        {header::snoozes, "2000000001"},
    };
    for (auto const& bad : table) {
        CAPTURE(bad.header);
        CAPTURE(bad.value);
        CHECK(names(why(with(bad.header, bad.value)), bad.header));
    }
}

TEST_CASE("attempts and snoozes that come to more than can be counted are refused, and that many are read")
{
    auto m = with(header::snoozes, "1999999998");
    CHECK(accepted(m).fencing_token() == count_max);
    set(m, header::attempt, "3");
    CHECK(names(why(m), header::snoozes));
}

TEST_CASE("what was left out counts from the beginning")
{
    CHECK(accepted(without(header::version)).version == 1);
    CHECK(accepted(without(header::attempt)).attempt == 1);
    CHECK(accepted(without(header::snoozes)).snoozes == 0);
}

TEST_CASE("an empty scope is a scope")
{
    CHECK(accepted(with(header::scope, "")).saga.scope == "");
}

TEST_CASE("a key of another step than the itinerary's is refused")
{
    auto m = with(header::idempotency_key, "order:42:create-order");
    CHECK(why(m).find("same step") != std::string::npos);
    m.type = "create-order";
    CHECK(why(m).find("same step") != std::string::npos);
}

TEST_CASE("a key that goes the other way than the itinerary is refused")
{
    CHECK(why(with(header::idempotency_key, "order:42:charge-payment.compensate")).find("same step") !=
          std::string::npos);

    auto back = write_message(charge_payment().at({direction::back, 0}), "{}");
    set(back, header::idempotency_key, "order:42:create-order");
    CHECK(why(back).find("same step") != std::string::npos);
}

TEST_CASE("a type of another step than the key's is refused")
{
    auto m = written();
    for (auto const& type : {""s, "create-order"s, "Charge-Payment"s, "charge-payment.compensate"s}) {
        CAPTURE(type);
        m.type = type;
        CHECK(why(m).find("same step") != std::string::npos);
    }
}

TEST_CASE("an odd trace context is dropped, and never a reason to refuse")
{
    auto const valid = charge_payment().trace.traceparent;
    for (auto const& odd : {"a\nb"s, "a\0b"s, "\xc3\xa4"s, "\x7f"s, std::string(513, 'x')}) {
        CAPTURE(odd);
        CHECK(accepted(with(header::traceparent, odd)).trace.traceparent == "");
        CHECK(accepted(with(header::traceparent, odd)).trace.tracestate == "");
        CHECK(accepted(with(header::tracestate, odd)).trace.tracestate == "");
        CHECK(accepted(with(header::tracestate, odd)).trace.traceparent == valid);
    }
    CHECK(accepted(with(header::tracestate, std::string(512, 'x'))).trace.tracestate.size() == 512);
}

TEST_CASE("a reason that can't be stored is made storable, and a long one is cut")
{
    auto m = written();
    m.headers.emplace_back(header::reason, "no \xff");
    CHECK(accepted(m).reason == "no \\xff");
    set(m, header::reason, std::string(5000, 'x'));
    CHECK(accepted(m).reason.size() == 1000);
}

// The next reader could take the other one.
TEST_CASE("one of our headers that is given twice is refused by name, even where both say the same")
{
    for (auto const name : {header::idempotency_key, header::scope, header::definition, header::version,
                            header::itinerary, header::home, header::attempt, header::snoozes}) {
        CAPTURE(name);
        auto m = written();
        m.headers.emplace_back(name, *find_header(m.headers, name));
        CHECK(names(why(m), name));
        CHECK(why(m).ends_with("twice"));
    }
}

TEST_CASE("of a header that is not ours the first counts")
{
    auto m = written();
    m.headers.emplace_back(header::traceparent, "another");
    CHECK(accepted(m).trace.traceparent == charge_payment().trace.traceparent);
}

TEST_CASE("the envelope of another step begins at its first attempt")
{
    auto const next = charge_payment().at({direction::forward, 2});
    CHECK(next.key() == derived_key{"order:42", "arrange-shipping", direction::forward});
    CHECK(next.attempt == 1);
    CHECK(next.snoozes == 0);
    CHECK(next.fencing_token() == 1);
    CHECK(next.home == "orders");
    CHECK(next.trace.traceparent == charge_payment().trace.traceparent);
}

TEST_CASE("a failed attempt and a snooze each move the fencing_token on")
{
    auto e = charge_payment();
    auto const fencing_token = e.fencing_token();
    e.attempt += 1;
    CHECK(e.fencing_token() == fencing_token + 1);
    e.snoozes += 1;
    CHECK(e.fencing_token() == fencing_token + 2);
}

TEST_CASE("deadlines are carried by a saga's messages, and a step's ends with the step")
{
    auto e = charge_payment();
    e.saga_deadline = parse_instant("2026-01-31T12:00:00.000000Z");
    e.step_deadline = parse_instant("2026-01-31T11:00:00.500000Z");
    auto m = write_message(e, "{}");
    CHECK(find_header(m.headers, header::saga_deadline) == "2026-01-31T12:00:00.000000Z");
    CHECK(find_header(m.headers, header::step_deadline) == "2026-01-31T11:00:00.500000Z");
    auto const read = accepted(m);
    CHECK(read.saga_deadline == e.saga_deadline);
    CHECK(read.step_deadline == e.step_deadline);
    CHECK(read.at({direction::forward, 2}).saga_deadline == e.saga_deadline);
    CHECK(!read.at({direction::forward, 2}).step_deadline);
}

TEST_CASE("the earlier deadline counts, up to the pivot and on the way forward only")
{
    auto e = charge_payment();
    CHECK(!e.deadline());
    auto const noon = parse_instant("2026-01-31T12:00:00.000000Z"), one = parse_instant("2026-01-31T13:00:00.000000Z");
    e.saga_deadline = one;
    CHECK(e.deadline() == one);
    e.step_deadline = noon;
    CHECK(e.deadline() == noon);
    std::swap(e.saga_deadline, e.step_deadline);
    CHECK(e.deadline() == noon);
    e.saga_deadline.reset();
    CHECK(e.deadline() == one);
    e.itinerary.position.direction = direction::back;
    CHECK(!e.deadline());
    e.itinerary.position = {direction::forward, e.itinerary.steps.size() - 1};
    e.itinerary.steps.back().kind = skald::step_kind::retriable;
    CHECK(!e.deadline());
}

TEST_CASE("a deadline that is no time of that form is malformed, never ignored")
{
    for (auto const name : {header::saga_deadline, header::step_deadline})
        for (auto const* text : {"", "soon", "2026-01-31T12:00:00Z"}) {
            auto m = written();
            m.headers.emplace_back(name, text);
            CHECK(names(why(m), name));
        }
}
