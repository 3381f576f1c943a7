// A saga's data between its type and the bytes of a message: what is refused, and that nothing changes unseen.
#include <doctest/doctest.h>

#include <skald/detail/data.hpp>

#include "support/complaint.hpp"
#include "unit/seeded.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace skald;
using namespace skald::detail;
using test::contains;
using namespace std::string_literals;

namespace {

struct order
{
    std::string id;
    int quantity{};
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, quantity, cents)

template <class Value>
struct holder
{
    Value value{};
    friend void from_json(nlohmann::json const& j, holder& h) { j.at("value").get_to(h.value); }
    friend void to_json(nlohmann::json& j, holder const& h) { j = nlohmann::json{{"value", h.value}}; }
};

template <class Value>
Value value_of(std::string const& number)
{
    return read_data<holder<Value>>(R"({"value":)" + number + "}").value;
}

template <class Act>
std::string complaint(Act act)
{
    return test::complaint_about<data_error>(act);
}

std::string why_refused(std::string const& body)
{
    return complaint([&] { parse_checked(body); });
}

bool is_refused(std::string const& body)
{
    return !why_refused(body).empty();
}

template <class Value>
bool does_not_fit(std::string const& number)
{
    return !complaint([&] { value_of<Value>(number); }).empty();
}

std::string nested(std::size_t levels)
{
    return std::string(levels, '[') + std::string(levels, ']');
}

}  // namespace

TEST_CASE("data is read as it was written")
{
    auto const read = read_data<order>(write_data(order{"order-1 \xe2\x82\xac", -3, 9'007'199'254'740'993}));
    CHECK(read.id == "order-1 \xe2\x82\xac");
    CHECK(read.quantity == -3);
    CHECK(read.cents == 9'007'199'254'740'993);
}

TEST_CASE("64 levels of nesting are taken, 65 are not")
{
    CHECK_FALSE(is_refused(nested(64)));
    CHECK(contains(why_refused(nested(65)), "64 levels"));
    auto const objects = [](std::size_t levels) {
        std::string text;
        for (std::size_t i = 0; i < levels; ++i) text += R"({"a":)";
        return text + "1" + std::string(levels, '}');
    };
    CHECK_FALSE(is_refused(objects(64)));
    CHECK(contains(why_refused(objects(65)), "64 levels"));
}

TEST_CASE("100,000 levels of nesting are refused, whether they are closed or not")
{
    CHECK(contains(why_refused(nested(100'000)), "64 levels"));
    CHECK(contains(why_refused(std::string(100'000, '[')), "64 levels"));
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
    CHECK(contains(why_refused(objects), "64 levels"));
}

TEST_CASE("levels that were closed again do not count")
{
    std::string many{"["};
    for (int i = 0; i < 200; ++i) many += "[[]],";
    CHECK_FALSE(is_refused(many + "1]"));
}

TEST_CASE("a name twice in one object is refused by name, and in two objects is not")
{
    CHECK(contains(why_refused(R"({"cents":1,"cents":2})"), "\"cents\" twice"));
    CHECK(is_refused(R"({"a":{"b":1,"b":1}})"));
    CHECK(is_refused(R"({"a":1,"b":{"a":1},"a":1})"));
    CHECK(is_refused(R"({"a":1,"\u0061":2})"));
    CHECK(is_refused(R"({"":1,"":2})"));
    CHECK_FALSE(is_refused(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})"));
}

TEST_CASE("\\u0000 is refused in a value and in a name")
{
    CHECK(contains(why_refused(R"({"a":"x\u0000y"})"), "\\u0000"));
    CHECK(contains(why_refused(R"({"x\u0000y":1})"), "\\u0000"));
    CHECK(is_refused("\"\0\""s));
    CHECK_FALSE(is_refused(R"({"a":"x\\u0000y"})"));
}

TEST_CASE("a whole number beyond 64 bits is refused, and one within is exact")
{
    CHECK(parse_checked("18446744073709551615").get<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max());
    CHECK(parse_checked("9223372036854775808").get<std::uint64_t>() == std::uint64_t{1} << 63);
    CHECK(parse_checked("-9223372036854775808").get<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
    CHECK(contains(why_refused("18446744073709551616"), "beyond 64 bits: 18446744073709551616"));
    CHECK(is_refused("-9223372036854775809"));
    CHECK(is_refused("[1," + std::string(400, '9') + "]"));
}

TEST_CASE("a number that JSON has no form for is refused")
{
    for (auto const& bad : {"1e400"s, "-1e400"s, "NaN"s, "nan"s, "Infinity"s, "-Infinity"s, "inf"s, "01"s, "+1"s, ".5"s,
                            "1."s, "1e"s, "0x10"s, "1_000"s, "-"s, "--1"s}) {
        CAPTURE(bad);
        CHECK(is_refused(bad));
        CHECK(is_refused("{\"a\":" + bad + "}"));
    }
    CHECK_FALSE(is_refused("[1.5,1e3,-0,0.1,1e308]"));
}

TEST_CASE("text that is no UTF-8 is refused")
{
    for (auto const& bad : {"\xff"s, "\xc3"s, "\xe2\x82"s, "\xf0\x9f\x98"s, "\xc0\x80"s, "\xe0\x80\xaf"s,
                            "\xf0\x80\x80\xaf"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s}) {
        CAPTURE(bad);
        CHECK(is_refused("\"" + bad + "\""));
        CHECK(is_refused("{\"" + bad + "\":1}"));
        CHECK(is_refused("\"" + bad));
    }
}

TEST_CASE("a lone surrogate is refused, and a pair is one character")
{
    CHECK(is_refused(R"("\ud800")"));
    CHECK(is_refused(R"("\udc00")"));
    CHECK(is_refused(R"("\ud800\ud800")"));
    CHECK(is_refused(R"("\ud800x")"));
    CHECK(parse_checked(R"("\ud83d\ude00")").get<std::string>() == "\xf0\x9f\x98\x80");
}

TEST_CASE("a body that is no JSON, or more than one, is refused")
{
    for (auto const& bad : {""s, " "s, "{"s, "}"s, "["s, "\""s, "a"s, "\0"s, "{}{}"s, "{} x"s, "[1,]"s, "{\"a\":1,}"s,
                            "{'a':1}"s, "{a:1}"s, "// c\n{}"s, "tru"s, "\x1f\x8b"s, "{}\0"s, "\"\n\""s}) {
        CAPTURE(bad);
        CHECK(is_refused(bad));
    }
    CHECK_FALSE(is_refused("0"));
    CHECK_FALSE(is_refused(" {} \n"));
}

TEST_CASE("a body of any bytes is taken or refused, and what is taken can be written again")
{
    skald::test::seeded random{8};
    auto const valid = R"({"id":"a\u00e4","n":[1,-2,3.5,true,null],"o":{"x":"\"y\""}})"s;
    int taken = 0;
    for (int i = 0; i < 20'000; ++i) {
        auto body = valid;
        for (auto n = random.number(0, 3); n > 0; --n) body[random.number(0, body.size() - 1)] = random.bytes(1, 1)[0];
        if (random.coin()) body.resize(random.number(0, body.size()));
        if (is_refused(body)) continue;
        ++taken;
        auto const read = parse_checked(body);
        REQUIRE(parse_checked(read.dump()) == read);
    }
    CHECK(taken > 1000);
}

TEST_CASE("a number too large for its type is refused and not cut")
{
    CHECK(value_of<int>("2147483647") == 2147483647);
    CHECK(does_not_fit<int>("4294967297"));
    CHECK(does_not_fit<int>("2147483648"));
    CHECK(does_not_fit<std::int16_t>("65537"));
    CHECK(does_not_fit<std::uint32_t>("4294967296"));
    CHECK(contains(complaint([] { value_of<int>("4294967297"); }), "4294967297"));
}

TEST_CASE("a whole number above 2^63 is refused by a signed type")
{
    CHECK(value_of<std::int64_t>("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
    CHECK(does_not_fit<std::int64_t>("9223372036854775808"));
    CHECK(does_not_fit<std::int64_t>("18446744073709551615"));
    CHECK(value_of<std::uint64_t>("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("a negative number is refused by an unsigned type")
{
    CHECK(does_not_fit<std::uint32_t>("-1"));
    CHECK(does_not_fit<std::uint64_t>("-1"));
    CHECK(does_not_fit<std::uint64_t>("-9223372036854775808"));
}

TEST_CASE("a fraction is refused by a whole type, and a whole fraction is not")
{
    CHECK(does_not_fit<int>("1.5"));
    CHECK(does_not_fit<std::int64_t>("0.1"));
    CHECK(value_of<int>("2.0") == 2);
    CHECK(does_not_fit<int>("1e10"));
    CHECK(does_not_fit<std::int64_t>("1e300"));
}

TEST_CASE("a whole number that a double can't hold is refused by a double")
{
    CHECK(value_of<double>("9007199254740992") == 9007199254740992.0);
    CHECK(does_not_fit<double>("9007199254740993"));
    CHECK(does_not_fit<double>("18446744073709551615"));
    CHECK(does_not_fit<double>("9223372036854775807"));
    CHECK(value_of<double>("0.1") == 0.1);
}

TEST_CASE("true and false are no numbers")
{
    CHECK(does_not_fit<int>("true"));
    CHECK(does_not_fit<double>("false"));
    CHECK(value_of<bool>("true"));
    CHECK(does_not_fit<bool>("1"));
}

TEST_CASE("a number is looked at however deep it is")
{
    using deep = std::map<std::string, std::vector<holder<int>>>;
    CHECK(read_data<deep>(R"({"a":[{"value":1},{"value":2}]})").at("a").size() == 2);
    CHECK_THROWS_AS(read_data<deep>(R"({"a":[{"value":1},{"value":4294967297}]})"), data_error);
}

TEST_CASE("a missing field and a field of another type are refused by name")
{
    CHECK(contains(complaint([] { read_data<order>(R"({"id":"a","cents":1})"); }), "quantity"));
    CHECK_THROWS_AS(read_data<order>(R"({"id":"a","quantity":"1","cents":1})"), data_error);
    CHECK_THROWS_AS(read_data<order>(R"({"id":1,"quantity":1,"cents":1})"), data_error);
    CHECK_THROWS_AS(read_data<order>(R"({"id":null,"quantity":1,"cents":1})"), data_error);
    CHECK_THROWS_AS(read_data<order>("[]"), data_error);
    CHECK_THROWS_AS(read_data<order>("null"), data_error);
}

TEST_CASE("what does not fit says which value, what it is and what it must be")
{
    auto const said = [](std::string const& body) { return complaint([&] { read_data<order>(body); }); };
    CHECK(contains(said(R"({"id":"a","quantity":"1","cents":1})"), ": /quantity is a string and must be a number"));
    // Of several it is the one that is read first.
    CHECK(contains(said(R"({"id":1,"quantity":[],"cents":1})"), ": /id is a number and must be a string"));
    CHECK(contains(said(R"({"cents":"2","id":"a","quantity":"1"})"), ": /quantity is a string and must be a number"));
    CHECK(contains(said(R"({"id":null,"quantity":1,"cents":1})"), ": /id is null and must be a string"));
    CHECK(contains(said(R"({"id":"a","quantity":{},"cents":1})"), ": /quantity is an object and must be a number"));
    CHECK(contains(said(R"({"id":"a","cents":1})"), ": the member quantity is missing"));

    for (std::string const none : {"null", "[]", "7"})
        CHECK(contains(said(none), none == "null" ? ": it is null and must be an object"
                                   : none == "7"  ? ": it is a number and must be an object"
                                                  : ": it is an array and must be an object"));
    auto const inner = complaint([] { read_data<holder<order>>(R"({"value":null})"); });
    CHECK(contains(inner, ": /value is null and must be an object"));

    auto const deep = complaint([] {
        read_data<holder<std::vector<order>>>(
            R"({"value":[{"id":"a","quantity":1,"cents":1},{"id":"b","quantity":1,"cents":"1"}]})");
    });
    CHECK(contains(deep, ": /value/1/cents is a string and must be a number"));
    auto const map = complaint([] { read_data<std::map<std::string, int>>(R"({"one":1,"two":"2"})"); });
    CHECK(contains(map, ": /two is a string and must be a number"));
}

TEST_CASE("a number that does not fit is named, with what it must be")
{
    auto const said = [](std::string const& quantity) {
        return complaint([&] { read_data<order>(R"({"id":"a","quantity":)" + quantity + R"(,"cents":1})"); });
    };
    for (std::string const quantity : {"4294967297", "true", "1.9"})
        CHECK(said(quantity) == "/quantity is " + quantity +
                                    ", which does not fit the saga's data type: it must be a whole number that its "
                                    "type holds, and became 1");
    CHECK(contains(complaint([] { read_data<double>("9007199254740993"); }),
                   "it is 9007199254740993, which does not fit the saga's data type: it must be a number that its type "
                   "holds, and became 9"));
    using deep = std::map<std::string, std::vector<holder<int>>>;
    CHECK(contains(complaint([] { read_data<deep>(R"({"a":[{"value":1},{"value":4294967297}]})"); }),
                   "/a/1/value is 4294967297, "));
}

TEST_CASE("what does not fit and is large is refused without its place, which would take long to find")
{
    std::string body{R"({"value":[)"};
    for (int n = 0; n < 10'000; ++n) body += "1,";
    CHECK(contains(complaint([&] { read_data<holder<std::vector<int>>>(body + R"("x"]})"); }),
                   ": a value is a string and must be a number"));
}

TEST_CASE("a field that the type does not have is no reason to refuse")
{
    CHECK(read_data<order>(R"({"id":"a","quantity":1,"cents":2,"colour":"red"})").cents == 2);
}

TEST_CASE("data that holds text that is no UTF-8 can't be written")
{
    CHECK_THROWS_AS(write_data(order{"\xff", 1, 1}), data_error);
}

// What a step leaves must be what the next step's service can read: else it would be parked there, far from its cause.
TEST_CASE("data that could not be read again can't be written")
{
    CHECK_THROWS_AS(write_data(order{"a\0b"s, 1, 1}), data_error);
    CHECK_THROWS_AS(write_data(holder<double>{std::nan("")}), data_error);
    CHECK_THROWS_AS(write_data(holder<double>{std::numeric_limits<double>::infinity()}), data_error);
}
