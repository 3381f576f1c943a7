// Reading takes one pass over the bytes, and writing looks at none: both against what nlohmann::json makes of the same
// bytes, which is what the two passes of each came to.
#include <doctest/doctest.h>

#include <skald/detail/data.hpp>

#include "support/complaint.hpp"
#include "unit/seeded.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace skald;
using namespace skald::detail;
using nlohmann::json;
using test::contains;
using namespace std::string_literals;

namespace {

template <class Act>
std::string complaint(Act act)
{
    return test::complaint_about<data_error>(act);
}

template <class Data>
std::string why_not_written(Data const& data)
{
    return complaint([&] { write_data(data); });
}

// Data that holds whatever a step may have put into it.
struct loose
{
    json value;
    friend void from_json(json const& j, loose& l) { l.value = j.at("value"); }
    friend void to_json(json& j, loose const& l) { j["value"] = l.value; }
};

// Written as so many levels, none of which is copied.
struct tower
{
    std::size_t levels{};
    friend void from_json(json const&, tower&) {}
    friend void to_json(json& j, tower const& t)
    {
        j = json::array();
        for (std::size_t i = 1; i < t.levels; ++i) {
            auto outer = json::array();
            outer.push_back(std::move(j));
            j = std::move(outer);
        }
    }
};

struct picture
{
    json::binary_t bytes;
    friend void from_json(json const& j, picture& p) { p.bytes = j.at("bytes").get_binary(); }
    friend void to_json(json& j, picture const& p) { j["bytes"] = json::binary(p.bytes); }
};

// Written as a signed number, and read by its exact kind: what is read from a text is unsigned where it can be.
struct exact_count
{
    int count{};
    friend void from_json(json const& j, exact_count& c)
    {
        c.count = static_cast<int>(j.at("count").get_ref<std::uint64_t const&>());
    }
    friend void to_json(json& j, exact_count const& c) { j["count"] = c.count; }
};

struct price
{
    double amount{};
    friend void from_json(json const& j, price& p)
    {
        p.amount = j.at("amount").is_null() ? std::nan("") : j.at("amount").get<double>();
    }
    friend void to_json(json& j, price const& p) { j["amount"] = p.amount; }
};

struct written_wider
{
    std::int64_t cents{};
    friend void from_json(json const& j, written_wider& w) { w.cents = j.at("cents").get<std::int32_t>(); }
    friend void to_json(json& j, written_wider const& w) { j["cents"] = w.cents; }
};

// Every value with the kind that it has: to nlohmann, 1 and 1u and 1.0 are equal.
std::string with_kinds(json const& value)
{
    std::string out = value.type_name() + "/"s + std::to_string(static_cast<int>(value.type()));
    if (!value.is_structured()) return out + value.dump();
    for (auto const& [name, inner] : value.items()) out += "(" + name + ":" + with_kinds(inner) + ")";
    return out;
}

constexpr std::string_view refusal = "the body is not JSON that Skald accepts: ";

void check_read(std::string const& body)
{
    CAPTURE(body);
    json expected;
    json read;
    auto const why = complaint([&] { read = parse_checked(body); });
    auto const theirs = test::complaint_about<json::exception>([&] { expected = json::parse(body); });
    if (why.empty()) {
        REQUIRE(theirs.empty());
        REQUIRE(with_kinds(read) == with_kinds(expected));
        return;
    }
    REQUIRE(why.starts_with(refusal));
    for (auto const* ours :
         {"deeper than 64 levels", "twice in one object", "\\u0000", "beyond 64 bits", "more digits", "accepts: a NUL"})
        if (contains(why, ours)) return;
    REQUIRE(why == std::string{refusal} + theirs);
}

std::string mutated(test::seeded& random, std::string body)
{
    constexpr std::string_view meaningful = "{}[],:\"\\0123456789.eE+-u \n";
    for (auto n = random.number(0, 3); n > 0 && !body.empty(); --n) {
        auto const at = random.number(0, body.size() - 1);
        auto const made = random.coin() ? random.text(meaningful, 1, 1) : random.bytes(1, 1);
        if (random.coin()) body[at] = made[0];
        else body.insert(at, made);
    }
    if (random.number(0, 7) == 0) body.resize(random.number(0, body.size()));
    return body;
}

json number(test::seeded& random)
{
    auto const bits = (std::uint64_t{random.number(0, 0xffffffff)} << 32) | random.number(0, 0xffffffff);
    auto const shift = random.number(0, 63);
    switch (random.number(0, 3)) {
    case 0: return bits >> shift;
    case 1: return static_cast<std::int64_t>(bits) >> shift;
    case 2: return std::ldexp(static_cast<double>(bits >> shift), static_cast<int>(random.number(0, 2000)) - 1000);
    default: return std::array{0.0, -0.0, std::nan(""), 1e300 * 1e300, 2.0, 0.1}[random.number(0, 5)];
    }
}

std::string text(test::seeded& random)
{
    auto const odd = random.number(0, 15);
    if (odd == 0) return random.bytes(0, 4);
    return odd == 1 ? "a\0b"s : random.text("aZ09 \"\\\n\x7f\x01", 0, 20) + "\xe2\x82\xac";
}

json anything(test::seeded& random, std::size_t levels)
{
    auto const what = random.number(0, levels == 0 ? 6 : 10);
    if (what == 0) return nullptr;
    if (what == 1) return random.coin();
    if (what < 5) return number(random);
    if (what == 5) return text(random);
    if (what == 6)
        return random.number(0, 9) > 0 ? json(text(random))
                                       : json::binary({1, 2, 255}, random.number(0, std::uint64_t{1} << 40));
    auto made = what < 9 ? json::object() : json::array();
    for (auto n = random.number(0, 4); n > 0; --n)
        if (made.is_object()) made[text(random)] = anything(random, levels - 1);
        else made.push_back(anything(random, levels - 1));
    return made;
}

}  // namespace

TEST_CASE("what is read is to the kind of every number what nlohmann::json reads, and refused in its words or ours")
{
    std::vector<std::string> const bodies{
        R"({"id":"a\u00e4","n":[1,-2,3.5,true,null],"o":{"x":"\"y\"","id":{}}})",
        R"([[],{},[[{"a":[-0,0.0,-0.0,1e3,1E-3]}]],"",18446744073709551615,-9223372036854775808,9223372036854775807])",
        R"({"cents":9007199254740992.0,"b":9007199254740993,"c":1e308,"d":0.30000000000000004})",
        R"({"a":{"a":{"a":1},"b":2},"b":[{"a":1},{"a":2}],"":"\ud83d\ude00"})",
        R"(  "text"  )",
        std::string(64, '[') + std::string(64, ']'),
        R"({"a":1,"\u0061":2})",
        R"({"a":"x\u0000y"})",
        "18446744073709551616",
        "9007199254740993.0",
        "1e400",
        "{}{}",
        "\xef\xbb\xbf{}",
        "",
    };
    for (auto const& body : bodies) check_read(body);
    test::seeded random{17};
    for (int i = 0; i < test::cases(10'000); ++i)
        check_read(mutated(random, bodies[random.number(0, bodies.size() - 1)]));
}

TEST_CASE("what can't be written is what could not be read of its text, and what is written is that text")
{
    test::seeded random{18};
    int written = 0;
    int refused = 0;
    for (int i = 0; i < test::cases(10'000); ++i) {
        loose const data{anything(random, 4)};
        std::string text;
        std::string unreadable;
        try {
            text = json(data).dump();
            unreadable = complaint([&] { read_data<loose>(text); });
        }
        catch (json::exception const& error) {
            unreadable = error.what();
        }
        std::string made;
        auto const why = complaint([&] { made = write_data(data); });
        CAPTURE(text);
        // JSON has no form for some numbers, and nlohmann writes null.
        if (contains(why, "which JSON can't represent")) {
            REQUIRE((text.empty() || contains(text, "null")));
            ++refused;
            continue;
        }
        REQUIRE(why == (unreadable.empty() ? "" : "the saga's data can't be written as JSON: " + unreadable));
        ++(why.empty() ? written : refused);
        if (!why.empty()) continue;
        REQUIRE(made == text);
        auto as_read = json(data);
        write_checked(as_read);
        REQUIRE(with_kinds(as_read) == with_kinds(parse_checked(text)));
    }
    CHECK(written > 50);
    CHECK(refused > 50);
}

TEST_CASE("64 levels can be written, 65 can't, and the 64th may not be bytes, which are written as two levels")
{
    CHECK(write_data(tower{64}) == std::string(64, '[') + std::string(64, ']'));
    CHECK(contains(why_not_written(tower{65}), "deeper than 64 levels"));
    json deep = json::binary({1});
    for (int i = 0; i < 62; ++i) deep = json::array({std::move(deep)});
    CHECK(why_not_written(deep).empty());
    CHECK(contains(why_not_written(json::array({std::move(deep)})), "deeper than 64 levels"));
}

TEST_CASE("100,000 levels can't be written, whether the data is a type or JSON itself")
{
    CHECK(contains(why_not_written(tower{100'000}), "deeper than 64 levels"));
    json deep;
    to_json(deep, tower{100'000});
    CHECK(contains(why_not_written(deep), "deeper than 64 levels"));
}

TEST_CASE("a NUL can't be written in a name, however deep, nor text that is not UTF-8")
{
    using names = std::map<std::string, std::map<std::string, int>>;
    CHECK(contains(why_not_written(names{{"a", {{"x\0y"s, 1}}}}), "\\u0000"));
    CHECK(contains(why_not_written(names{{"a", {{"\xff", 1}}}}), "invalid UTF-8"));
    CHECK(why_not_written(names{{"a", {{"x\\u0000y", 1}}}}).empty());
}

TEST_CASE("bytes that the text has as an object can't be written where the type reads bytes alone")
{
    CHECK(contains(why_not_written(picture{{{1, 2, 3}}}), "does not fit the saga's data type"));
    CHECK(write_data(json{{"raw", json::binary({1, 255}, 7)}}) == R"({"raw":{"bytes":[1,255],"subtype":7}})");
}

TEST_CASE("a value that nlohmann::json has discarded can't be written")
{
    CHECK_FALSE(why_not_written(loose{json(json::value_t::discarded)}).empty());
}

TEST_CASE("a number is shown to the type as the next step reads it")
{
    CHECK(write_data(exact_count{3}) == R"({"count":3})");
    CHECK_FALSE(why_not_written(exact_count{-3}).empty());
}

TEST_CASE("a number that is none can't be written, also where its type takes null for it, and the place is told")
{
    CHECK(contains(why_not_written(price{std::nan("")}), "/amount is NaN"));
    CHECK(contains(why_not_written(std::vector<double>{1.0, -std::numeric_limits<double>::infinity()}),
                   "/1 is infinite"));
}

TEST_CASE("a number that the type writes wider than it reads can't be written")
{
    CHECK(write_data(written_wider{2'147'483'647}) == R"({"cents":2147483647})");
    CHECK(contains(why_not_written(written_wider{4'294'967'297}), "4294967297"));
}
