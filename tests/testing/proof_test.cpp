#include "shop.hpp"

#include <doctest/doctest.h>

#include <iostream>

using namespace kit_test;

TEST_CASE("the order example's steps happen once, whatever is delivered twice or dies half-way")
{
    auto const shop = make_shop();
    auto const proof = shop->prove_exactly_once(place_order, pen());
    CHECK(proof);
    std::cout << proof;
}
