// Scope, key, step, and the derived key `key:step`: what is taken, what is refused, and that nobody's key
// reaches another saga's step.
#include <doctest/doctest.h>

#include "core/identity.hpp"
#include "unit/seeded.hpp"

#include <string>

using namespace skald::core;
using namespace std::string_literals;

namespace {

derived_key parsed(std::string const& text)
{
    CAPTURE(text);
    auto const key = parse_derived_key(text);
    REQUIRE(key.has_value());
    return *key;
}

bool is_refused(std::string const& text)
{
    return !parse_derived_key(text).has_value();
}

}  // namespace

TEST_CASE("a derived key is the key, a colon and the step")
{
    CHECK(derived_key{"order-1", "charge-payment", direction::forward}.text() == "order-1:charge-payment");
    CHECK(derived_key{"order-1", "charge-payment", direction::back}.text() == "order-1:charge-payment.compensate");
    CHECK(derived_key{"order-1", "charge-payment", direction::back}.guarded_step() == "charge-payment.compensate");
    CHECK(derived_key{"order-1", "charge-payment", direction::forward}.guarded_step() == "charge-payment");
}

TEST_CASE("a derived key is split on its last colon")
{
    CHECK(parsed("order-1:charge-payment") == derived_key{"order-1", "charge-payment", direction::forward});
    CHECK(parsed("order-1:charge-payment.compensate") == derived_key{"order-1", "charge-payment", direction::back});
    CHECK(parsed("a:b:c") == derived_key{"a:b", "c", direction::forward});
    CHECK(parsed("::s") == derived_key{":", "s", direction::forward});
    CHECK(parsed("https://shop/1:s.compensate") == derived_key{"https://shop/1", "s", direction::back});
}

// Traps G14: with the parts glued together, a client that sends the key `X:charge-payment` would touch saga X.
TEST_CASE("the key X:charge-payment never stands for the step charge-payment of saga X")
{
    derived_key const step_of_x{"X", "charge-payment", direction::forward};
    std::string const hostile_key = step_of_x.text();
    REQUIRE(is_key(hostile_key));

    for (auto const& step : {"charge-payment"s, "create-order"s}) {
        auto const read = parsed(derived_key{hostile_key, step, direction::forward}.text());
        CHECK(read != step_of_x);
        CHECK(read.key == hostile_key);
        CHECK(read.step == step);
    }
}

TEST_CASE("a key that ends like a compensation is still only a key")
{
    auto const read = parsed(derived_key{"X:charge.compensate", "pack", direction::forward}.text());
    CHECK(read == derived_key{"X:charge.compensate", "pack", direction::forward});
}

TEST_CASE("a key has 1 to 180 bytes of printable ASCII")
{
    CHECK(is_key("x"));
    CHECK(is_key(" ~"));
    CHECK(is_key(std::string(180, 'x')));
    CHECK_FALSE(is_key(std::string(181, 'x')));
    CHECK_FALSE(is_key(""));
    for (int c = 0; c < 256; ++c) {
        CAPTURE(c);
        CHECK(is_key(std::string(1, static_cast<char>(c))) == (c >= 0x20 && c <= 0x7e));
    }
}

TEST_CASE("a key of 180 bytes fits a derived key, and one of 181 does not")
{
    CHECK(parsed(std::string(180, 'x') + ":s").key.size() == 180);
    CHECK(is_refused(std::string(181, 'x') + ":s"));
}

TEST_CASE("the longest derived key fits a message id of 255 bytes")
{
    derived_key const longest{std::string(key_bytes_max, 'k'), std::string(48, 's'), direction::back};
    REQUIRE(parsed(longest.text()) == longest);
    CHECK(longest.text().size() <= 255);
}

TEST_CASE("a name is a lower-case letter, then lower-case letters, digits and dashes, 48 at most")
{
    for (auto const& good : {"a"s, "charge-payment"s, "a1"s, "a-"s, "a--b"s, std::string(48, 'a')}) {
        CAPTURE(good);
        CHECK(is_name(good));
    }
    for (auto const& bad : {""s, std::string(49, 'a'), "A"s, "aB"s, "1a"s, "-a"s, "a_b"s, "a.b"s, "a:b"s, "a b"s,
                            "a\n"s, "a\0b"s, "\xc3\xa4"s, "a\xc3\xa4"s}) {
        CAPTURE(bad);
        CHECK_FALSE(is_name(bad));
    }
}

TEST_CASE("a derived key without a key, or with a step that is no name, is refused")
{
    for (auto const& bad :
         {""s, ":"s, "order-1"s, "order-1:"s, ":charge"s, "order-1:Charge"s, "order-1:-charge"s, "order-1:charge "s,
          "order-1: charge"s, "order-1:charge.undo"s, "order-1:.compensate"s, "order-1:charge.compensate.compensate"s,
          "order-1:charge.compensate."s, "order-1:charge.Compensate"s, "order\n1:charge"s, "order\0x:charge"s,
          "order-1:ch\0rge"s, "\xc3\xa4:charge"s, "order-1:" + std::string(49, 'a')}) {
        CAPTURE(bad);
        CHECK(is_refused(bad));
    }
}

TEST_CASE("a scope is empty or at most 64 bytes of UTF-8 without NUL")
{
    CHECK(is_scope(""));
    CHECK(is_scope("tenant \xc3\xa4 \n"));
    CHECK(is_scope(std::string(64, 'x')));
    CHECK_FALSE(is_scope(std::string(65, 'x')));
    CHECK_FALSE(is_scope("a\0b"s));
    CHECK_FALSE(is_scope("\xff"));
}

TEST_CASE("reading what text() wrote gives the same derived key, whatever the key")
{
    skald::test::seeded random{1};
    for (int i = 0; i < 20'000; ++i) {
        // Mostly colons, dots and letters of `.compensate`, so that keys look like what they must not be taken for.
        auto const key = random.coin() ? random.text(":.compensate-x1", 1, 24)
                                       : random.text(" !\"#$%&'()*+,-./:;<=>?@AZaz[\\]^_`{|}~", 1, key_bytes_max);
        derived_key const written{key, random.name(), random.coin() ? direction::forward : direction::back};
        CAPTURE(written.text());
        auto const read = parse_derived_key(written.text());
        REQUIRE(read.has_value());
        REQUIRE(*read == written);
    }
}

TEST_CASE("whatever is read as a derived key is written as the same text")
{
    skald::test::seeded random{2};
    int taken = 0;
    for (int i = 0; i < 50'000; ++i) {
        auto const text =
            random.text("a:.-1 A\n", 0, 6) + random.text(":a", 0, 2) + (random.coin() ? ".compensate" : "");
        auto const read = parse_derived_key(text);
        if (!read) continue;
        ++taken;
        CAPTURE(text);
        REQUIRE(read->text() == text);
    }
    CHECK(taken > 1000);
}
