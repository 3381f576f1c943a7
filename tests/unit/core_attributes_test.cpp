// What a saga is found by: the attributes that its definition names, as text.
#include <skald/definition.hpp>
#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace {

enum class tier { gold, iron };

std::string to_string(tier t)
{
    return t == tier::gold ? "gold" : "iron";
}

struct account
{
    std::string customer;
};

struct order : account
{
    std::int64_t cents{};
    bool is_gift{};
    tier of{};
    std::optional<std::string> coupon;
    std::optional<int> shelf;

    std::string city() const { return "Oslo"; }
};

std::string country(order const&)
{
    return "no";
}

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr auto plain = skald::define("place-order", charge);
constexpr auto named = plain.attribute<&order::customer>("customer")
                           .attribute<&order::cents>("cents")
                           .attribute<&order::is_gift>("is-gift")
                           .attribute<&order::of>("tier")
                           .attribute<&order::coupon>("coupon")
                           .attribute<&order::shelf>("shelf")
                           .attribute<&order::city>("city")
                           .attribute<&country>("country");

std::string of(order const& o)
{
    return skald::detail::attributes_of(named, o);
}

}  // namespace

TEST_CASE("attributes are text, whole numbers, bools, what has a to_string, and functions of the data")
{
    order o;
    o.customer = "bob";
    o.cents = -7;
    CHECK(of(o) == R"({"cents":"-7","city":"Oslo","country":"no","customer":"bob","is-gift":"false","tier":"gold"})");
    o.coupon = "spring";
    o.shelf = 0;
    o.is_gift = true;
    o.of = tier::iron;
    CHECK(of(o) == R"({"cents":"-7","city":"Oslo","country":"no","coupon":"spring","customer":"bob","is-gift":"true",)"
                   R"("shelf":"0","tier":"iron"})");
}

TEST_CASE("what has no value, or an empty one, is no attribute")
{
    order o;
    o.coupon = "";
    CHECK(of(o) == R"({"cents":"0","city":"Oslo","country":"no","is-gift":"false","tier":"gold"})");
    constexpr auto one = plain.attribute<&order::customer>("customer");
    CHECK(skald::detail::attributes_of(one, o).empty());
    CHECK(skald::detail::attributes_of(plain, o).empty());
}

TEST_CASE("a value of 256 bytes is an attribute, and a longer one an error that names it")
{
    order o;
    o.customer = std::string(256, 'x');
    CHECK(of(o).find(o.customer) != std::string::npos);
    o.customer += 'x';
    CHECK_THROWS_WITH_AS(of(o), doctest::Contains("the attribute customer has 257 bytes, and at most 256 are allowed"),
                         skald::data_error);
    o.customer = "\xff";
    CHECK_THROWS_WITH_AS(of(o), "the attribute customer is not UTF-8, or has a NUL", skald::data_error);
    o.customer = std::string{"a\0b", 3};
    CHECK_THROWS_AS(of(o), skald::data_error);
}

TEST_CASE("another version has the same attributes, and an attribute leaves the version as it is")
{
    constexpr auto second = named.versioned(2);
    static_assert(second.attribute_count == 8 && second.version == 2);
    static_assert(plain.versioned(3).attribute<&order::customer>("customer").version == 3);
    CHECK(second.attributes[0].name == "customer");
}
