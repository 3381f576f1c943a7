// Values as SQL literals: the corpus that must not get out of its quotes. tests/integration sends the same to a server.
#include <doctest/doctest.h>

#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"
#include "unit/seeded.hpp"

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace skald::postgres;
using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;
namespace queries = skald::queries;

namespace {

std::string literal(parameter const& value)
{
    return value.literal();
}

/// What a server with standard_conforming_strings = on reads: the text between the quotes, each '' being one quote.
/// Nothing where the literal ends early or not at all.
std::string read_back(std::string const& sql)
{
    REQUIRE(sql.size() >= 2);
    REQUIRE(sql.front() == '\'');
    REQUIRE(sql.back() == '\'');
    std::string text;
    for (std::size_t i = 1; i + 1 < sql.size(); ++i) {
        if (sql[i] == '\'') {
            ++i;
            REQUIRE(i + 1 < sql.size());
            REQUIRE(sql[i] == '\'');
        }
        text += sql[i];
    }
    return text;
}

}  // namespace

TEST_CASE("text is quoted, and a quote is doubled")
{
    CHECK(literal("") == "''");
    CHECK(literal("order-1") == "'order-1'");
    CHECK(literal("it's") == "'it''s'");
    CHECK(literal("'") == "''''");
    CHECK(literal("''") == "''''''");
}

TEST_CASE("hostile text stays between its quotes")
{
    for (auto const& hostile : {
             "'; DROP TABLE wallet; --"s,
             "\\'; DROP TABLE wallet; --"s,
             "\\"s,
             "\\\\"s,
             "\\''"s,
             "'\\"s,
             "x'||(SELECT 1)||'"s,
             "$$; SELECT 1; $$"s,
             "$1"s,
             "E'\\''"s,
             "U&'\\0027'"s,
             "/* '"s,
             "*/"s,
             "-- '\n'"s,
             "\n'\n'"s,
             "'::text; COMMIT; '"s,
             ");COMMIT;"s,
             "]::text[]"s,
             "\xe2\x80\x99"s,
             "\xca\xbc'"s,
             "\xef\xbc\x87"s,
             "\x1a'"s,
             "\x01\x7f"s,
             "%s'%n"s,
             "\"'\""s,
         }) {
        CAPTURE(hostile);
        CHECK(read_back(literal(hostile)) == hostile);
    }
}

TEST_CASE("any storable text is read back as it was")
{
    skald::test::seeded random{10};
    for (int i = 0; i < 10'000; ++i) {
        auto const text = random.text("'\\;-$ a\n\"\x01", 0, 20);
        CAPTURE(text);
        REQUIRE(read_back(literal(text)) == text);
    }
}

// CVE-2025-1094: a quote that a malformed character swallows, or that the server sees where the client saw none.
TEST_CASE("text that is no UTF-8, or holds a NUL, is no literal")
{
    for (auto const& bad :
         {"\0"s, "a\0'"s, "\xc0'"s, "\xc3'"s, "\xe2\x82'"s, "\xf0\x9f'"s, "\xc0\xa7"s, "\xe0\x80\xa7"s, "\xbf\x27"s,
          "\xbf\x5c\x27"s, "\x80"s, "\xff"s, "\xed\xa0\x80"s, "ok\xe2"s}) {
        CAPTURE(skald::core::to_hex(bad));
        CHECK_THROWS_AS(literal(bad), std::invalid_argument);
        CHECK_THROWS_AS((parameter{std::vector<std::string>{"ok", bad}}), std::invalid_argument);
    }
}

TEST_CASE("bytes of any kind are written in hexadecimal")
{
    CHECK(parameter{bytes{""}}.literal() == R"('\x')");
    CHECK(parameter{bytes{"\0'\\\xff"s}}.literal() == R"('\x00275cff')");
}

TEST_CASE("whole numbers are written whole")
{
    CHECK(literal(std::int64_t{0}) == "0");
    CHECK(literal(std::int64_t{-1}) == "-1");
    CHECK(literal(std::numeric_limits<std::int64_t>::max()) == "9223372036854775807");
    CHECK(literal(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
}

TEST_CASE("an array is one literal, also where it is empty")
{
    auto const texts = [](std::vector<std::string> const& all) { return parameter{all}.literal(); };
    CHECK(texts({}) == "'{}'");
    CHECK(texts({"a", "", "it's", "a,b", "{}", "NULL", "\"\\"}) == R"('{"a","","it''s","a,b","{}","NULL","\"\\"}')");
    CHECK(parameter{std::vector<bytes>{}}.literal() == "'{}'");
    CHECK(parameter{std::vector<bytes>{{"\0"sv}, {"a"}}}.literal() == R"('{"\\x00","\\x61"}')");
    CHECK(parameter{std::vector<std::int64_t>{}}.literal() == "'{}'");
    CHECK(parameter{std::vector<std::int64_t>{1, -2}}.literal() == "'{1,-2}'");
    CHECK(parameter{std::vector<bool>{}}.literal() == "'{}'");
    CHECK(parameter{std::vector<bool>{true, false}}.literal() == "'{t,f}'");
}

TEST_CASE("a value's type decides how it is written")
{
    CHECK(parameter{true}.literal() == "true");
    CHECK(parameter{1'500ms}.literal() == "1500");
    CHECK(parameter{std::optional<std::chrono::milliseconds>{}}.literal() == "NULL");
    CHECK(parameter{std::optional{-1}}.literal() == "-1");
    CHECK(parameter{skald::core::instant{}}.literal() == "'1970-01-01T00:00:00.000000Z'");
    CHECK(null_if_empty("").literal() == "NULL");
    CHECK(null_if_empty("a").literal() == "'a'");
}

TEST_CASE("a prepared statement is executed with its literals in order")
{
    CHECK(execute("take_turn") == "EXECUTE take_turn;");
    CHECK(execute(queries::list_parked{.reason = std::nullopt,
                                       .scope = std::nullopt,
                                       .key = "it's",
                                       .step = std::nullopt,
                                       .after = 0,
                                       .rows_max = std::int64_t{1}}) ==
          "EXECUTE list_parked(NULL,NULL,'it''s',NULL,0,1);");
}

TEST_CASE("a statement's values go where it names them, whatever is in them")
{
    CHECK(execute(queries::advance{.scope = "", .key = "it's", .status = "$1", .reason = std::nullopt}) ==
          "EXECUTE advance('','it''s','$1',NULL);");
    struct
    {
        parameter first, second;
        std::array<parameter const*, 2> all() const { return {&first, &second}; }
    } const values{"$2", 7};
    CHECK(filled_in("SELECT $1, '$', $2, $1::text, $$a$$", values.all()) == "SELECT '$2', '$', 7, '$2'::text, $$a$$");
    CHECK(filled_in("$2", values.all()) == "7");
    CHECK(filled_in("", values.all()) == "");
}

TEST_CASE("no text is NULL, and an empty text is not")
{
    CHECK(literal(std::optional<std::string>{}) == "NULL");
    CHECK(literal(std::optional{""s}) == "''");
    CHECK(literal(std::optional{"it's"s}) == "'it''s'");
}
