// Text that PostgreSQL can store: RFC 3629 to the letter, and nothing that the server would refuse. Bytes as text.
#include <doctest/doctest.h>

#include "core/text.hpp"
#include "unit/seeded.hpp"

#include <stdexcept>
#include <string>

using namespace skald::core;
using namespace std::string_literals;

TEST_CASE("well-formed UTF-8 is storable")
{
    for (auto const& good : {""s, "a"s, "\x01"s, "\x7f"s, "\n\t"s, "\xc2\x80"s, "\xdf\xbf"s, "\xe0\xa0\x80"s,
                             "\xe2\x82\xac"s, "\xed\x9f\xbf"s, "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s,
                             "\xf0\x9f\x98\x80"s, "\xf4\x8f\xbf\xbf"s,
                             "a\xe2\x82\xac"
                             "b"s}) {
        CAPTURE(to_hex(good));
        CHECK(is_storable_text(good));
        CHECK(storable_text(good) == good);
    }
}

TEST_CASE("malformed UTF-8 and NUL are not storable")
{
    struct
    {
        std::string text;
        char const* why;
    } const table[]{
        {"\0"s, "NUL"},
        {"a\0b"s, "NUL within"},
        {"\x80", "a continuation alone"},
        {"\xbf", "a continuation alone"},
        {"\xc3", "truncated, 1 of 2"},
        {"\xe2\x82", "truncated, 2 of 3"},
        {"\xe2", "truncated, 1 of 3"},
        {"\xf0\x9f\x98", "truncated, 3 of 4"},
        {"\xf0\x9f", "truncated, 2 of 4"},
        {"\xf0", "truncated, 1 of 4"},
        {"\xc3"
         "a",
         "a letter where a continuation belongs"},
        {"\xe2\x82"
         "a",
         "a letter in third place"},
        {"\xe2"
         "a\x82",
         "a letter in second place"},
        {"\xf0\x9f\x98"
         "a",
         "a letter in fourth place"},
        {"\xc0\x80", "overlong NUL"},
        {"\xc0\xaf", "overlong slash"},
        {"\xc1\xbf", "overlong, 2 bytes"},
        {"\xe0\x80\xaf", "overlong, 3 bytes"},
        {"\xe0\x9f\xbf", "overlong, 3 bytes"},
        {"\xf0\x80\x80\xaf", "overlong, 4 bytes"},
        {"\xf0\x8f\xbf\xbf", "overlong, 4 bytes"},
        {"\xed\xa0\x80", "the first surrogate"},
        {"\xed\xbf\xbf", "the last surrogate"},
        {"\xed\xa0\xbd\xed\xb8\x80", "a pair of surrogates (CESU-8)"},
        {"\xf4\x90\x80\x80", "above U+10FFFF"},
        {"\xf5\x80\x80\x80", "above U+10FFFF"},
        {"\xf8\x88\x80\x80\x80", "five bytes"},
        {"\xfc\x84\x80\x80\x80\x80", "six bytes"},
        {"\xfe", "no such byte"},
        {"\xff", "no such byte"},
        {"a\xff", "after good text"},
        {"\xff"
         "a",
         "before good text"},
    };
    for (auto const& bad : table) {
        CAPTURE(bad.why);
        CHECK_FALSE(is_storable_text(bad.text));
        CHECK(is_storable_text(storable_text(bad.text)));
        CHECK(storable_text(bad.text) != bad.text);
    }
}

// Against a decoder that works the other way round: from the code point to its bytes.
TEST_CASE("exactly the code points other than NUL and the surrogates are storable, each in its shortest form only")
{
    auto const is_storable_in = [](std::size_t bytes, unsigned point) {
        unsigned const lead[]{0, 0x00, 0xc0, 0xe0, 0xf0};
        char text[4];
        for (auto i = bytes - 1; i > 0; --i, point >>= 6) text[i] = static_cast<char>(0x80u | (point & 0x3fu));
        text[0] = static_cast<char>(lead[bytes] | point);
        return is_storable_text({text, bytes});
    };
    auto const shortest = [](unsigned point) {
        return point < 0x80 ? 1u : point < 0x800 ? 2u : point < 0x10000 ? 3u : 4u;
    };
    std::size_t wrong = 0;
    for (unsigned point = 0; point < 0x1fffff; ++point) {
        bool const is_character = point != 0 && (point < 0xd800 || point > 0xdfff) && point <= 0x10ffff;
        for (std::size_t bytes = shortest(point); bytes <= 4; ++bytes)
            wrong += is_storable_in(bytes, point) != (is_character && bytes == shortest(point));
    }
    CHECK(wrong == 0);
}

TEST_CASE("each offending byte is written out, and the rest stays as it is")
{
    CHECK(storable_text("a\0b"s) == "a\\x00b");
    CHECK(storable_text("\xe2\x82") == "\\xe2\\x82");
    CHECK(storable_text("\xe2\x82\xac\xff") == "\xe2\x82\xac\\xff");
    CHECK(storable_text("\xc3"
                        "a") == "\\xc3a");
}

TEST_CASE("a cut never splits a character or an escape")
{
    auto const euros = "\xe2\x82\xac\xe2\x82\xac"s;
    CHECK(storable_text(euros, 6) == euros);
    CHECK(storable_text(euros, 5) == "\xe2\x82\xac");
    CHECK(storable_text(euros, 3) == "\xe2\x82\xac");
    CHECK(storable_text(euros, 2) == "");
    CHECK(storable_text("\xff\xff", 8) == "\\xff\\xff");
    CHECK(storable_text("\xff\xff", 7) == "\\xff");
    CHECK(storable_text("\xff", 3) == "");
    CHECK(storable_text("abc", 0) == "");
    CHECK(storable_text(std::string(5'000, 'x')).size() == 1'000);
}

TEST_CASE("whatever the bytes, storable text is storable, within its limit, and the same the second time")
{
    skald::test::seeded random{7};
    for (int i = 0; i < 20'000; ++i) {
        // Bytes that are likely to begin or continue characters.
        auto const text =
            random.coin() ? random.bytes(0, 40) : random.text("a\x80\xbf\xc2\xe0\xa0\xed\x9f\xf0\x90\xf4\x8f", 0, 40);
        auto const bytes_max = random.number(0, 50);
        CAPTURE(to_hex(text));
        auto const made = storable_text(text, bytes_max);
        REQUIRE(made.size() <= bytes_max);
        REQUIRE(is_storable_text(made));
        REQUIRE(storable_text(made, bytes_max) == made);
        if (is_storable_text(text)) REQUIRE(text.starts_with(made));
    }
}

TEST_CASE("bytes come back from hexadecimal as they were")
{
    std::string every_byte;
    for (int c = 0; c < 256; ++c) every_byte += static_cast<char>(c);
    CHECK(from_hex(to_hex(every_byte)) == every_byte);
    CHECK(to_hex("\x00\x0f\xff"s) == "000fff");
    CHECK(to_hex("") == "");
    CHECK(from_hex("") == "");
}

TEST_CASE("what is no pairs of hexadecimal digits is refused")
{
    for (auto const& bad : {"0"s, "000"s, "0g"s, "g0"s, "0x"s, " 0"s, "\\x"s, "0\0"s}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(from_hex(bad), std::invalid_argument);
    }
}

TEST_CASE("what a terminal would obey is shown as text")
{
    CHECK(visible_text("\x1b[31mX\nsaga K: completed\r\t\a\x7f"s + '\0') ==
          "\\x1b[31mX\\nsaga K: completed\\r\\t\\x07\\x7f\\x00");
    CHECK(visible_text("\u0080\u009b2J\u009f") == "\\x80\\x9b2J\\x9f");
    CHECK(visible_text("\x9b\xff\xc3") == "\\x9b\\xff\\xc3");
    CHECK(visible_text("caf\u00e9\u00a0\u20ac \\ ~") == "caf\u00e9\u00a0\u20ac \\ ~");
    CHECK(visible_text("one\ntwo\r\n", line_feeds::kept) == "one\ntwo\\r\n");
    CHECK(visible_text("") == "");
}

TEST_CASE("base64 is written as in RFC 4648, section 10")
{
    CHECK(to_base64("") == "");
    CHECK(to_base64("f") == "Zg==");
    CHECK(to_base64("fo") == "Zm8=");
    CHECK(to_base64("foo") == "Zm9v");
    CHECK(to_base64("foob") == "Zm9vYg==");
    CHECK(to_base64("fooba") == "Zm9vYmE=");
    CHECK(to_base64("foobar") == "Zm9vYmFy");
    CHECK(to_base64(std::string_view{"\xfb\xff\0", 3}) == "+/8A");
}

TEST_CASE("any bytes come back from base64 as they were")
{
    skald::test::seeded random{7};
    for (int i = 0; i < 1'000; ++i) {
        auto const bytes = random.bytes(0, 100);
        auto const text = to_base64(bytes);
        CHECK_MESSAGE(from_base64(text) == bytes, "of the case ", i, ": ", text);
    }
}

TEST_CASE("what is not base64, or is base64 in another way than it is written, is refused")
{
    for (auto const* text : {"Z", "Zg", "Zg=", "Zm9vY", "Zm9v====", "====", "=", "Z===", "Zg==Zg==", "Zm=v", "=m9v",
                             "Zm9 ", "Zm9\n", "Zm-v", "Zm_v", "Zm9v\n", "Zh==", "Zm9="})
        CHECK_MESSAGE(!from_base64(text), text);
    CHECK_MESSAGE(!from_base64(std::string_view{"Zm\0v", 4}), "NUL");
    CHECK(from_base64("") == "");
}

TEST_CASE("what a library says over several lines is read on one, without the line that only points")
{
    CHECK(in_one_line("ERROR:  duplicate key\nDETAIL:  Key (id)=(7) already exists.\n") ==
          "ERROR:  duplicate key; DETAIL:  Key (id)=(7) already exists.");
    CHECK(in_one_line("ERROR:  no such table\nLINE 1: SELECT * FROM walet\n                      ^\n") ==
          "ERROR:  no such table; LINE 1: SELECT * FROM walet");
    CHECK(in_one_line("one line") == "one line");
    CHECK(in_one_line("\r\n \n").empty());
}
