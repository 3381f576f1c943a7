#include "audit/decimal.hpp"

#include <doctest/doctest.h>

using skald::audit::is_same_decimal;

TEST_CASE("amounts are equal by their value, however they are written")
{
    CHECK(is_same_decimal("19.90", "19.9"));
    CHECK(is_same_decimal("19.9", "1990e-2"));
    CHECK(is_same_decimal("19.9", "0.199E+2"));
    CHECK(is_same_decimal("0012", "12."));
    CHECK(is_same_decimal("-0.00", "0"));
    CHECK(is_same_decimal("+5", "5"));
    CHECK(is_same_decimal("100", "1e2"));
    CHECK_FALSE(is_same_decimal("19.9", "-19.9"));
    CHECK_FALSE(is_same_decimal("19.9", "1.99"));
    CHECK_FALSE(is_same_decimal("100", "10"));
    CHECK_FALSE(is_same_decimal("0.01", "0.001"));
}

TEST_CASE("amounts that are one and the same double differ")
{
    CHECK_FALSE(is_same_decimal("9007199254740993", "9007199254740992"));
    CHECK_FALSE(is_same_decimal("0.1", "0.1000000000000000055511151231257827"));
    CHECK_FALSE(is_same_decimal("12345678901234567890.01", "12345678901234567890.02"));
}

TEST_CASE("what is no decimal number equals none")
{
    for (auto const* text :
         {"", "-", ".", "e5", "1e", "1e+-5", "1 ", " 1", "0x1", "1,5", "NaN", "1e99999999999999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(is_same_decimal(text, text));
    }
    CHECK(is_same_decimal(".5", "0.5"));
    CHECK(is_same_decimal("1e2147483647", "10e2147483646"));
}
