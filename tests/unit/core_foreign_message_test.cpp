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
    CHECK(key_of(m, message_format::cloud_events) == R"(["/pay","42"])");
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
        m.headers = {{prefix + "specversion", "1.0"},
                     {prefix + "id", "42"},
                     {prefix + "type", "created"},
                     {prefix + "source", "/pay"}};
        CHECK(key_of(m, message_format::cloud_events) == R"(["/pay","42"])");
        CHECK(payload_of(m, message_format::cloud_events) == R"({"id":"p-1"})");
        m.headers.pop_back();
        CHECK(key_of(m, message_format::cloud_events) ==
              "malformed: it is no CloudEvent: its attribute `source` is missing, or no text");
        m.headers.emplace_back(prefix + "source", "");
        CHECK(key_of(m, message_format::cloud_events)
                  .starts_with("malformed: it is no CloudEvent: its attribute `source`"));
    }
    CHECK(key_of(a_message(), message_format::cloud_events).starts_with("malformed: it is no CloudEvent: neither"));
}

namespace {

message structured(std::string const& members, std::string content_type = "application/cloudevents+json")
{
    auto m = a_message("{" + members + "}");
    m.content_type = std::move(content_type);
    return m;
}

message binary(core::header_list attributes, std::string body)
{
    auto m = a_message(std::move(body));
    m.headers.clear();
    for (auto& [name, value] : attributes) m.headers.emplace_back("cloudEvents:" + name, std::move(value));
    m.content_type = "application/json";
    return m;
}

constexpr auto as_events = message_format::cloud_events;

}  // namespace

TEST_CASE("a CloudEvent without a required attribute, or of another version, is malformed")
{
    std::string const all = R"("specversion":"1.0","id":"42","source":"/pay","type":"created")";
    REQUIRE(key_of(structured(all), as_events) == R"(["/pay","42"])");
    for (std::string const name : {"specversion", "id", "source", "type"}) {
        auto const at = all.find('"' + name);
        auto const other = std::string{all}.replace(at, name.size() + 2, R"("other")");
        CHECK(key_of(structured(other), as_events) ==
              "malformed: it is no CloudEvent: its attribute `" + name + "` is missing, or no text");
        core::header_list attributes{{"specversion", "1.0"}, {"id", "42"}, {"source", "/pay"}, {"type", "created"}};
        std::erase_if(attributes, [&](auto const& one) { return one.first == name; });
        CHECK(key_of(binary(attributes, "{}"), as_events).starts_with("malformed: it is no CloudEvent: "));
    }
    auto const of_version = [](std::string const& version) {
        return key_of(structured(R"("id":"42","source":"/pay","type":"created","specversion":")" + version + '"'),
                      as_events);
    };
    for (std::string const version : {"0.3", "1.1", "2.0", "1.0 "})
        CHECK(of_version(version) == "malformed: it is a CloudEvent of version '" + version + "': only 1.0 is read");
    CHECK(key_of(binary({{"specversion", "0.3"}, {"id", "1"}, {"source", "s"}, {"type", "t"}}, "{}"), as_events) ==
          "malformed: it is a CloudEvent of version '0.3': only 1.0 is read");
}

TEST_CASE("two CloudEvents have one key only if source and id are the same")
{
    auto const key = [](std::string const& source, std::string const& id) {
        return key_of(binary({{"specversion", "1.0"}, {"id", id}, {"source", source}, {"type", "t"}}, "{}"), as_events);
    };
    CHECK(key("a b", "c") != key("a", "b c"));
    CHECK(key("a\",\"b", "c") != key("a", "b\",\"c"));
    CHECK(key("a", "b") == key("a", "b"));
    CHECK(key("zürich", "1").starts_with("sha256:"));
    CHECK(key("\xff", "1").starts_with("malformed: "));
}

TEST_CASE("a content type means the same in any case and with any parameters, and a longer one another")
{
    std::string const all = R"("specversion":"1.0","id":"42","source":"/pay","type":"created","data":1)";
    for (std::string const type :
         {"application/cloudevents+json", "Application/CloudEvents+JSON", "application/cloudevents+json;charset=utf-8",
          "APPLICATION/CLOUDEVENTS+JSON ; charset=\"utf-8\""})
        CHECK_MESSAGE(payload_of(structured(all, type), as_events) == "1", type);
    for (std::string const type :
         {"application/cloudevents+jsonx", "application/cloudevents+avro", "Application/CloudEvents-Batch+JSON"})
        CHECK_MESSAGE(
            payload_of(structured(all, type), as_events).starts_with("malformed: it is a CloudEvent in a form"), type);
}

TEST_CASE("an event has the same payload whether it comes structured or binary, and however it is written")
{
    std::string const all = R"("specversion":"1.0","id":"42","source":"/pay","type":"created")";
    core::header_list const attributes{{"specversion", "1.0"}, {"id", "42"}, {"source", "/pay"}, {"type", "created"}};
    for (std::string const data : {R"({ "b" : [1, 2.50], "a":"\u00fc" })", "7", "\"text\"", "null"})
        CHECK(payload_of(structured(all + R"(, "data":)" + data), as_events) ==
              payload_of(binary(attributes, data), as_events));
    CHECK(payload_of(structured(all), as_events) == payload_of(binary(attributes, ""), as_events));
    CHECK(payload_of(structured(all + R"(,"data_base64":"eyAiaWQiIDogMSB9")"), as_events) == R"({"id":1})");
    CHECK(payload_of(binary(attributes, "no json"), as_events).starts_with("malformed: "));
}

TEST_CASE("an object that only looks like an envelope of Debezium's is the payload itself")
{
    for (std::string const body : {R"({"schema":"text","payload":7})", R"({"schema":[1],"payload":7})",
                                   R"({"schema":{},"payload":7,"x":1})", R"({"payload":7})", R"({"schema":{}})"})
        CHECK(payload_of(a_message(body), message_format::debezium) == body);
    CHECK(payload_of(a_message(R"({"schema":null,"payload":7})"), message_format::debezium) == "7");
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

TEST_CASE("only the headers that Skald adds to what it sends again are dropped")
{
    auto m = core::write_again(a_message(), "books.on.paid", {"acme", "p-1"}, "p-1:paid", 3, 2);
    core::drop_words_of_ours(m);
    auto const read = std::get<core::accepted_message>(core::read_foreign(m, {}));
    CHECK(read.identity == core::saga_id{"", "m-1"});
    CHECK(read.attempt == 3);
    CHECK(core::find_header(m.headers, "tenant") == "acme");
}

TEST_CASE("what would act if it were sent again is dropped, and nothing else")
{
    auto m = a_message();
    auto const before = m.headers;
    for (auto const* name : {"x-death", "CC", "BCC", "skald-exchange"}) m.headers.emplace_back(name, "x");
    core::drop_headers_that_act(m);
    CHECK(m.headers == before);
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
