// Whose a foreign message is and what it carries: keys, formats, and what is refused.
#include "core/foreign_message.hpp"

#include "core/envelope.hpp"
#include "core/text.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace skald;
using core::message;

namespace {

message a_message(std::string body = R"({"id":"p-1","order":{"id":7,"line":2},"paid":true})")
{
    message m;
    m.id = "m-1";
    m.headers = {{"tenant", "acme"}, {"event-id", "e-1"}};
    m.body = std::move(body);
    return m;
}

/// "key", or "reason: why".
std::string key_of(message const& m, message_options const& rules)
{
    auto const read = core::read_foreign(m, rules);
    if (auto const* const no = std::get_if<core::refused_message>(&read))
        return std::string{no->reason} + ": " + no->why;
    return std::get<core::accepted_message>(read).identity.key;
}

std::string key_of(message const& m, message_key key)
{
    message_options rules;
    rules.key = std::move(key);
    return key_of(m, rules);
}

std::string payload_of(message const& m, message_format format)
{
    message_options rules;
    rules.format = format;
    auto const read = core::read_foreign(m, rules);
    if (auto const* const no = std::get_if<core::refused_message>(&read))
        return std::string{no->reason} + ": " + no->why;
    return std::get<core::accepted_message>(read).payload;
}

std::string key_of(message const& m, message_format format)
{
    message_options rules;
    rules.format = format;
    return key_of(m, rules);
}

constexpr auto dns = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

}  // namespace

TEST_CASE("a message's key is its id, a header, members, or a function of it")
{
    CHECK(key_of(a_message(), message_key{}) == "m-1");
    CHECK(key_of(a_message(), message_key::header("event-id")) == "e-1");
    CHECK(key_of(a_message(), message_key::members({"/id"})) == "p-1");
    CHECK(key_of(a_message(), message_key::members({"/order/id"})) == "7");
    CHECK(key_of(a_message(), message_key::members({"/order/id", "/id"})) == R"([7,"p-1"])");
    CHECK(key_of(a_message(), message_key::uuid_v5(dns, {"/id"})) == uuid_v5(dns, "p-1"));
    CHECK(key_of(a_message(), message_key::uuid_v5(dns, {"/order/id", "/id"})) == uuid_v5(dns, R"([7,"p-1"])"));
    CHECK(key_of(a_message(), message_key::computed([](auto const& m) {
                     return *m.header("tenant") + m.payload.substr(2, 2);
                 })) == "acmeid");
}

TEST_CASE("keys of several members don't run into each other")
{
    auto const one = a_message(R"({"a":"1/2","b":"3"})"), other = a_message(R"({"a":"1","b":"2/3"})");
    auto const key = message_key::members({"/a", "/b"});
    CHECK(key_of(one, key) != key_of(other, key));
    CHECK(key_of(a_message(R"({"a":1,"b":2})"), key) != key_of(a_message(R"({"a":"1","b":"2"})"), key));
}

TEST_CASE("a message without its key is refused, with what is missing")
{
    auto nameless = a_message();
    nameless.id.clear();
    CHECK(key_of(nameless, message_key{}) == "no_key: it has no message_id");
    CHECK(key_of(a_message(), message_key::header("Event-Id")) == "no_key: it has no header Event-Id");
    CHECK(key_of(a_message(), message_key::members({"/nobody"})) == "no_key: it has no member /nobody");
    CHECK(key_of(a_message(), message_key::members({"/paid"})) ==
          "no_key: its member /paid is neither text nor an integer");
    CHECK(key_of(a_message(), message_key::members({"/order"})) ==
          "no_key: its member /order is neither text nor an integer");
    CHECK(key_of(a_message(R"({"id":""})"), message_key::members({"/id"})) == "no_key: its key is empty");
    CHECK(key_of(a_message("[1]"), message_key::members({"/id"})) == "no_key: it has no member /id");
    auto const throws = message_key::computed([](auto const&) -> std::string { throw std::runtime_error{"no luck"}; });
    CHECK(key_of(a_message(), throws) == "no_key: the function that makes its key failed: no luck");
    auto const throws_else = message_key::computed([](auto const&) -> std::string { throw 7; });
    CHECK(key_of(a_message(), throws_else).starts_with("no_key: the function that makes its key threw something"));
    CHECK(key_of(a_message("no json"), message_key::members({"/id"})).starts_with("malformed: "));
}

TEST_CASE("a text that is no key is hashed, the same each time")
{
    auto const sha = [](std::string id) {
        auto m = a_message();
        m.id = std::move(id);
        return key_of(m, message_key{});
    };
    CHECK(sha(std::string(180, 'k')) == std::string(180, 'k'));
    CHECK(sha(std::string(181, 'k')).starts_with("sha256:"));
    CHECK(sha(std::string(181, 'k')) == sha(std::string(181, 'k')));
    CHECK(sha(std::string(181, 'k')) != sha(std::string(182, 'k')));
    CHECK(sha("zürich").size() == 7 + 64);
    CHECK(sha("a\nb").starts_with("sha256:"));
}

TEST_CASE("a message's scope is found like its key")
{
    message_options rules;
    rules.scope = message_key::header("tenant");
    CHECK(std::get<core::accepted_message>(core::read_foreign(a_message(), rules)).identity.scope == "acme");
    auto m = a_message();
    m.headers.front().second = std::string(65, 'x');
    CHECK(key_of(m, rules) == "malformed: its scope has more than 64 bytes, or is no UTF-8");
    m.headers.clear();
    CHECK(key_of(m, rules) == "no_key: it has no header tenant");
}

TEST_CASE("a structured CloudEvent")
{
    auto m = a_message(R"({"specversion":"1.0","id":"42","source":"/pay","type":"created","data":{"id":"p-1"}})");
    m.content_type = "application/cloudevents+json; charset=UTF-8";
    CHECK(key_of(m, message_format::cloud_events) == "/pay 42");
    CHECK(payload_of(m, message_format::cloud_events) == R"({"id":"p-1"})");

    m.body = R"({"specversion":"1.0","id":"42","source":"/pay","type":"created","data_base64":"eyJpZCI6MX0="})";
    CHECK(payload_of(m, message_format::cloud_events) == R"({"id":1})");
    m.body = R"({"specversion":"1.0","id":"42","source":"/pay","type":"created","data_base64":"e"})";
    CHECK(payload_of(m, message_format::cloud_events) ==
          "malformed: the member `data_base64` of the CloudEvent is no base64");
    m.body = R"({"specversion":"1.0","id":"42","type":"created"})";
    CHECK(payload_of(m, message_format::cloud_events) ==
          "malformed: it is no CloudEvent: its attribute `source` is missing, or no text");
    m.body = R"({"specversion":"1.0","id":"42","source":"/pay","type":"created"})";
    CHECK(payload_of(m, message_format::cloud_events) == "null");
    m.content_type = "application/cloudevents-batch+json";
    CHECK(payload_of(m, message_format::cloud_events) ==
          "malformed: it is a CloudEvent in a form that is not read: application/cloudevents-batch+json");
}

TEST_CASE("a binary CloudEvent")
{
    for (std::string const prefix : {"cloudEvents:", "cloudEvents_", "ce-", "ce_"}) {
        CAPTURE(prefix);
        auto m = a_message(R"({"id":"p-1"})");
        m.headers = {{prefix + "specversion", "1.0"}, {prefix + "id", "42"}, {prefix + "source", "/pay"}};
        CHECK(key_of(m, message_format::cloud_events) == "/pay 42");
        CHECK(payload_of(m, message_format::cloud_events) == R"({"id":"p-1"})");
        m.headers.pop_back();
        CHECK(key_of(m, message_format::cloud_events) ==
              "malformed: it is no CloudEvent: its source or its id is missing");
    }
    CHECK(key_of(a_message(), message_format::cloud_events).starts_with("malformed: it is no CloudEvent: neither"));
}

TEST_CASE("what Debezium's outbox event router sends")
{
    auto m = a_message(R"({"id":"p-1"})");
    m.headers = {{"id", "cc0b1ff0"}};
    CHECK(key_of(m, message_format::debezium) == "cc0b1ff0");
    CHECK(payload_of(m, message_format::debezium) == R"({"id":"p-1"})");
    m.body = R"({"schema":{"type":"string"},"payload":"{\"id\":\"p-1\"}"})";
    CHECK(payload_of(m, message_format::debezium) == R"({"id":"p-1"})");
    m.body = R"({"schema":{"type":"struct"},"payload":{"id":"p-1"}})";
    CHECK(payload_of(m, message_format::debezium) == R"({"id":"p-1"})");
    m.body = R"("{\"id\":\"p-1\"}")";
    CHECK(payload_of(m, message_format::debezium) == R"({"id":"p-1"})");
    m.headers.clear();
    m.id.clear();
    CHECK(key_of(m, message_format::debezium) == "no_key: neither has it a header `id`, nor a message_id");
}

TEST_CASE("a message that is tried again keeps its key, and differs in its numbers only")
{
    auto m = a_message();
    m.headers.emplace_back("x-attempt", "first");
    auto const again = core::write_again(m, "books.on.paid", {"acme", "p-1"}, "p-1:paid", 3, 2);
    CHECK(again.destination == "books.on.paid");
    CHECK(again.id == "m-1");
    CHECK(again.body == m.body);
    CHECK(core::find_header(again.headers, "tenant") == "acme");
    auto const read = std::get<core::accepted_message>(core::read_foreign(again, {}));
    CHECK(read.identity == core::saga_id{"acme", "p-1"});  // not what the rules find now
    CHECK(read.attempt == 3);
    CHECK(read.snoozes == 2);

    // Somebody else's header of that name is no count.
    CHECK(std::get<core::accepted_message>(core::read_foreign(m, {})).attempt == 1);
    m.id.clear();
    CHECK(core::write_again(m, "d", {}, "p-1:paid", 1, 1).id == "p-1:paid");
}

TEST_CASE("a handler's destination names it, and only to its service")
{
    CHECK(core::handler_of(core::handler_destination("books", "paid"), "books") == "paid");
    CHECK(core::handler_of("books.on.paid", "book") == "");
    CHECK(core::handler_of("books", "books") == "");
    CHECK(core::handler_of("books.parked", "books") == "");
}

TEST_CASE("a reply goes where the request says, with its correlation or its id")
{
    auto m = a_message();
    CHECK(core::write_reply(m, "quote", "m-1:quote", "{}").destination == "");
    m.headers.emplace_back(core::header::reply_to, "answers");
    auto reply = core::write_reply(m, "quote", "m-1:quote", R"({"cents":7})");
    CHECK(reply.destination == "answers");
    CHECK(reply.body == R"({"cents":7})");
    CHECK(reply.id == "m-1:quote.reply");
    CHECK(core::find_header(reply.headers, core::header::correlation_id) == "m-1");
    m.headers.emplace_back(core::header::correlation_id, "c-9");
    CHECK(core::find_header(core::write_reply(m, "quote", "k", "").headers, core::header::correlation_id) == "c-9");
}
