// Forms and queries are read as browsers send them.
#include "console/form.hpp"

#include <doctest/doctest.h>

using skald::console::fields;
using skald::console::parse_form;

TEST_CASE("names and values are decoded, in their order, and several may have one name")
{
    CHECK(parse_form("") == fields{});
    CHECK(parse_form("a=1&b=x+y%26z&&a=2&c") == fields{{"a", "1"}, {"a", "2"}, {"b", "x y&z"}, {"c", ""}});
    CHECK(parse_form("saga=orders%0A%0a1") == fields{{"saga", "orders\n\n1"}});
    CHECK(parse_form("a=b=c") == fields{{"a", "b=c"}});
}

TEST_CASE("a broken escape is not guessed at")
{
    for (auto const* broken : {"a=%", "a=%2", "a=%zz", "%q=1"}) CHECK_FALSE(parse_form(broken));
}
