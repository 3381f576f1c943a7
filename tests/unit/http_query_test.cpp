// Parameters of a request as values: what does not convert is the client's fault, 400.
#include <skald/http_handler.hpp>

#include <doctest/doctest.h>

using namespace skald::http;

TEST_CASE("a parameter of the query is decoded, and there once or not at all")
{
    auto const text = [](std::string_view query) { return detail::query_text(query, "city"); };
    CHECK(text("city=Malm%C3%B6&nights=3") == "Malm\u00f6");
    CHECK(text("nights=3&city=New+York") == "New York");
    CHECK(text("city=") == "");
    CHECK(text("city") == "");
    CHECK_FALSE(text(""));
    CHECK_FALSE(text("City=x&cit=y"));
    CHECK_THROWS_WITH_AS(text("city=a&city=a"), "the query has city more than once", body_error);
    for (auto const* bad : {"city=%", "city=%zz", "city=%00", "city=%ff", "city=\xff"})
        CHECK_THROWS_WITH_AS(text(bad), "the query's city is no percent-encoded UTF-8", body_error);
}

TEST_CASE("text is a number or a bool, or an error that says which is wanted")
{
    CHECK(detail::converted<int>("n", "-3") == -3);
    CHECK(detail::converted<std::uint8_t>("n", "255") == 255);
    CHECK(detail::converted<double>("n", "2.5") == 2.5);
    CHECK(detail::converted<bool>("n", "true"));
    CHECK_FALSE(detail::converted<bool>("n", "false"));
    CHECK(detail::converted<std::string>("n", " x ") == " x ");
    for (auto const* bad : {"", " 3", "3 ", "+3", "3x", "0x3", "3.0", "1e1", "three"})
        CHECK_THROWS_WITH_AS(detail::converted<int>("n", bad), "n is no whole number", body_error);
    CHECK_THROWS_WITH_AS(detail::converted<std::uint8_t>("n", "256"), "n is too large, or too small", body_error);
    CHECK_THROWS_WITH_AS(detail::converted<unsigned>("n", "-1"), "n is no whole number", body_error);
    for (auto const* bad : {"", "nan", "inf", "2,5", "x"})
        CHECK_THROWS_WITH_AS(detail::converted<double>("n", bad), "n is no number", body_error);
    for (auto const* bad : {"", "1", "TRUE", "yes"})
        CHECK_THROWS_WITH_AS(detail::converted<bool>("n", bad), "n is neither true nor false", body_error);
}
