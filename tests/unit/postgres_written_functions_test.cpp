#include "postgres/written_functions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

using skald::postgres::functions_in;

TEST_CASE("the body of a function that a migration creates is found byte for byte, and its settings in order")
{
    auto const all = functions_in("-- CREATE FUNCTION skald.not_this()\n"
                                  "\nCREATE FUNCTION skald.one(a text) RETURNS text\nLANGUAGE sql\n"
                                  "SET search_path = pg_catalog, pg_temp\nSET jit = off\n"
                                  "AS $$ SELECT a $$;\n"
                                  "\nCREATE OR REPLACE FUNCTION skald.two() RETURNS void\nAS $$\nBEGIN\nEND $$;\n");
    REQUIRE(all.size() == 2);
    CHECK(all[0].name == "one");
    CHECK(all[0].body == " SELECT a ");
    CHECK(all[0].settings == "jit=off\nsearch_path=pg_catalog, pg_temp");
    CHECK(all[1].name == "two");
    CHECK(all[1].body == "\nBEGIN\nEND ");
    CHECK(all[1].settings.empty());
}

TEST_CASE("a function that is written in another form is refused, and not left out")
{
    CHECK_THROWS_AS(functions_in("\nCREATE FUNCTION skald.one() RETURNS int RETURN 1;\n"), std::logic_error);
    CHECK_THROWS_AS(functions_in("\nCREATE FUNCTION skald.one()\nSET jit TO off\nAS $$ $$;\n"), std::logic_error);
}

TEST_CASE("all of Skald's migrations are read")
{
    auto const all = skald::postgres::written_functions();
    CHECK(all.size() >= 49);
    for (auto const* name : {"claim", "enqueue", "advance_many", "put_back", "purge"})
        CHECK_MESSAGE(std::ranges::count(all, name, &skald::postgres::written_function::name) >= 1, name);
}
