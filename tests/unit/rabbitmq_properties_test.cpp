// Every kind of header that AMQP knows is either text or a named problem, and the frames of a message are put together
// whatever their sizes.
#include <doctest/doctest.h>

#include "rabbitmq/content_reader.hpp"
#include "rabbitmq/errors.hpp"
#include "rabbitmq/properties.hpp"

#include <cstring>
#include <limits>

namespace {

using namespace skald::rabbitmq;
using skald::rabbitmq::bytes;

amqp_table_entry_t entry(char const* name, std::uint8_t kind)
{
    amqp_table_entry_t made{};
    made.key = amqp_cstring_bytes(name);
    made.value.kind = kind;
    return made;
}

decoded_properties decoded(std::vector<amqp_table_entry_t> entries)
{
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_HEADERS_FLAG;
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    return decode_properties(properties);
}

template <class Set>
std::string text_of(std::uint8_t kind, Set set)
{
    auto one = entry("h", kind);
    set(one.value.value);
    auto const result = decoded({one});
    CHECK(result.problem == "");
    REQUIRE(result.message.headers.size() == 1);
    return result.message.headers[0].second;
}

amqp_frame_t deliver_frame(amqp_basic_deliver_t& method)
{
    amqp_frame_t frame{};
    frame.frame_type = AMQP_FRAME_METHOD;
    frame.payload.method = {AMQP_BASIC_DELIVER_METHOD, &method};
    return frame;
}

amqp_frame_t header_frame(amqp_basic_properties_t& properties, std::uint64_t body_size)
{
    amqp_frame_t frame{};
    frame.frame_type = AMQP_FRAME_HEADER;
    frame.payload.properties = {AMQP_BASIC_CLASS, body_size, &properties, {}};
    return frame;
}

amqp_frame_t body_frame(std::string_view text)
{
    amqp_frame_t frame{};
    frame.frame_type = AMQP_FRAME_BODY;
    frame.payload.body_fragment = bytes(text);
    return frame;
}

}  // namespace

TEST_CASE("text headers stay as they are, with any bytes")
{
    std::string const any{"a\0\xFF\n", 4};
    CHECK(text_of(AMQP_FIELD_KIND_UTF8, [&](auto& v) { v.bytes = bytes(any); }) == any);
    CHECK(text_of(AMQP_FIELD_KIND_UTF8, [&](auto& v) { v.bytes = amqp_empty_bytes; }) == "");
}

TEST_CASE("whole numbers, booleans and times become text")
{
    CHECK(text_of(AMQP_FIELD_KIND_BOOLEAN, [](auto& v) { v.boolean = 1; }) == "true");
    CHECK(text_of(AMQP_FIELD_KIND_BOOLEAN, [](auto& v) { v.boolean = 0; }) == "false");
    CHECK(text_of(AMQP_FIELD_KIND_I8, [](auto& v) { v.i8 = -128; }) == "-128");
    CHECK(text_of(AMQP_FIELD_KIND_U8, [](auto& v) { v.u8 = 255; }) == "255");
    CHECK(text_of(AMQP_FIELD_KIND_I16, [](auto& v) { v.i16 = -32768; }) == "-32768");
    CHECK(text_of(AMQP_FIELD_KIND_U16, [](auto& v) { v.u16 = 65535; }) == "65535");
    CHECK(text_of(AMQP_FIELD_KIND_I32, [](auto& v) { v.i32 = -7; }) == "-7");
    CHECK(text_of(AMQP_FIELD_KIND_U32, [](auto& v) { v.u32 = 4294967295u; }) == "4294967295");
    CHECK(text_of(AMQP_FIELD_KIND_I64, [](auto& v) { v.i64 = std::numeric_limits<std::int64_t>::min(); }) ==
          "-9223372036854775808");
    CHECK(text_of(AMQP_FIELD_KIND_U64, [](auto& v) { v.u64 = std::numeric_limits<std::uint64_t>::max(); }) ==
          "18446744073709551615");
    CHECK(text_of(AMQP_FIELD_KIND_TIMESTAMP, [](auto& v) { v.u64 = 1'700'000'000; }) == "1700000000");
}

TEST_CASE("a header of any other kind is a problem that names it, and the others are kept")
{
    struct
    {
        std::uint8_t kind;
        char const* says;
    } const cases[]{{AMQP_FIELD_KIND_TABLE, "table"},        {AMQP_FIELD_KIND_ARRAY, "array"},
                    {AMQP_FIELD_KIND_BYTES, "byte array"},   {AMQP_FIELD_KIND_F32, "floating point"},
                    {AMQP_FIELD_KIND_F64, "floating point"}, {AMQP_FIELD_KIND_DECIMAL, "decimal"},
                    {AMQP_FIELD_KIND_VOID, "void"},          {'?', "unknown kind"}};
    for (auto const& [kind, says] : cases) {
        CAPTURE(says);
        auto good = entry("good", AMQP_FIELD_KIND_UTF8);
        good.value.value.bytes = bytes("kept");
        auto const result = decoded({entry("x-saga", kind), good});
        CHECK(result.problem.find("`x-saga`") != std::string::npos);
        CHECK(result.problem.find(says) != std::string::npos);
        CHECK(result.message.headers == skald::core::header_list{{"good", "kept"}});
    }
}

TEST_CASE("a header that is not Skald's and has no text form is ignored: a shovel or a federation link has added it")
{
    auto good = entry("good", AMQP_FIELD_KIND_UTF8);
    good.value.value.bytes = bytes("kept");
    auto const result = decoded({entry("x-shovelled", AMQP_FIELD_KIND_ARRAY), entry("zz", AMQP_FIELD_KIND_F64), good});
    CHECK(result.problem == "");
    CHECK(result.message.headers == skald::core::header_list{{"good", "kept"}});
}

TEST_CASE("the broker's own headers are no part of the message, whatever kind they are of")
{
    auto const result =
        decoded({entry("x-death", AMQP_FIELD_KIND_ARRAY), entry("x-delivery-count", AMQP_FIELD_KIND_I64)});
    CHECK(result.problem == "");
    CHECK(result.message.headers.empty());
}

TEST_CASE("how often a delivery came back is read, whatever kind the count is of")
{
    for (auto const kind : {AMQP_FIELD_KIND_I64, AMQP_FIELD_KIND_I32}) {
        auto count = entry("x-delivery-count", static_cast<std::uint8_t>(kind));
        count.value.value.i64 = 7;
        CHECK(decoded({count}).returns == 7);
    }
    CHECK(decoded({entry("x-delivery-count", AMQP_FIELD_KIND_ARRAY)}).returns == 0);
}

TEST_CASE("missing properties are empty, the content type too")
{
    amqp_basic_properties_t properties{};
    auto const result = decode_properties(properties);
    CHECK(result.message.id == "");
    CHECK(result.message.type == "");
    CHECK(result.message.content_type == "");
    CHECK(result.message.headers.empty());
    CHECK(result.correlation == "");
    CHECK(result.problem == "");
}

TEST_CASE("what was encoded is decoded to the same")
{
    skald::core::message sent{"payments", "id", "type", "text/plain", {{"a", "1"}, {"b", ""}}, "body"};
    std::string const correlation = "17";
    encoded_properties const properties{sent, correlation};
    CHECK(properties.get()->delivery_mode == 2);
    auto const result = decode_properties(*properties.get());
    CHECK(result.message.id == sent.id);
    CHECK(result.message.type == sent.type);
    CHECK(result.message.content_type == sent.content_type);
    CHECK(result.message.headers == sent.headers);
    CHECK(result.correlation == "17");
}

TEST_CASE("a message that just fits is not refused, and one byte more is")
{
    skald::core::message message{"payments", "id", "type", "", {{"h", ""}}, ""};
    constexpr std::size_t frame = 4096;
    auto& value = message.headers[0].second;
    while (refusal(message, frame).empty()) value += 'x';
    CHECK(refusal(message, frame).find("frame") != std::string::npos);
    value.pop_back();
    CHECK(refusal(message, frame) == "");

    // What was let through fits into a frame as rabbitmq-c encodes it, with room for what the broker adds.
    std::string const correlation = "1";
    encoded_properties const properties{message, correlation};
    auto headers = properties.get()->headers;
    std::string buffer(frame - 1024, '\0');
    std::size_t used = 0;
    CHECK(amqp_encode_table(bytes(buffer), &headers, &used) == AMQP_STATUS_OK);
    CHECK(used > frame / 4);
}

TEST_CASE("a body is put together from frames of any size")
{
    amqp_basic_deliver_t method{};
    method.delivery_tag = 7;
    method.redelivered = 1;
    method.consumer_tag = bytes("skald.payments");
    amqp_basic_properties_t properties{};
    for (std::string const body : {"", "a", "abc", "abcdefghij"}) {
        for (std::size_t step = 1; step <= 4; ++step) {
            content_reader reader;
            CHECK_FALSE(reader.feed(deliver_frame(method)));
            auto complete = reader.feed(header_frame(properties, body.size()));
            for (std::size_t at = 0; at < body.size(); at += step) {
                CHECK_FALSE(complete);
                complete = reader.feed(body_frame(std::string_view{body}.substr(at, step)));
            }
            REQUIRE(complete);
            CHECK(complete->properties.message.body == body);
            CHECK(complete->delivery_tag == 7);
            CHECK(complete->redelivered);
            CHECK(complete->consumer == "skald.payments");
            CHECK(reader.unfinished() == nullptr);
        }
    }
}

TEST_CASE("frames in an order that makes no sense end the connection, not the process")
{
    amqp_basic_deliver_t method{};
    amqp_basic_properties_t properties{};
    content_reader reader;
    SUBCASE("a body before its message")
    {
        CHECK_THROWS_AS(reader.feed(body_frame("x")), connection_lost);
    }
    SUBCASE("a header before its message")
    {
        CHECK_THROWS_AS(reader.feed(header_frame(properties, 1)), connection_lost);
    }
    SUBCASE("a message in the middle of another")
    {
        reader.feed(deliver_frame(method));
        CHECK_THROWS_AS(reader.feed(deliver_frame(method)), connection_lost);
    }
    SUBCASE("a body before its header")
    {
        reader.feed(deliver_frame(method));
        CHECK_THROWS_AS(reader.feed(body_frame("x")), connection_lost);
    }
    SUBCASE("two headers")
    {
        reader.feed(deliver_frame(method));
        reader.feed(header_frame(properties, 1));
        CHECK_THROWS_AS(reader.feed(header_frame(properties, 1)), connection_lost);
    }
    SUBCASE("more body than announced")
    {
        reader.feed(deliver_frame(method));
        reader.feed(header_frame(properties, 1));
        CHECK_THROWS_AS(reader.feed(body_frame("xy")), connection_lost);
    }
    SUBCASE("a header of another class")
    {
        reader.feed(deliver_frame(method));
        auto header = header_frame(properties, 1);
        header.payload.properties.class_id = 10;
        CHECK_THROWS_AS(reader.feed(header), connection_lost);
    }
}

TEST_CASE("a body announced as larger than any memory costs none")
{
    amqp_basic_deliver_t method{};
    amqp_basic_properties_t properties{};
    content_reader reader;
    reader.feed(deliver_frame(method));
    CHECK_FALSE(reader.feed(header_frame(properties, std::numeric_limits<std::uint64_t>::max())));
    CHECK_FALSE(reader.feed(body_frame("x")));
}
