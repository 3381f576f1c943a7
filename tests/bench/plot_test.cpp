// The plots: what is on the axes, and that nothing leaves the paper.
#include "plot.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

using namespace skald_bench;

namespace {

int count(std::string const& text, std::string const& what)
{
    int found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
}

std::vector<double> numbers_in(std::string const& svg, char const* attribute)
{
    std::vector<double> numbers;
    std::regex const pattern{std::string{" "} + attribute + "=\"(-?[0-9.]+)\""};
    for (std::sregex_iterator it{svg.begin(), svg.end(), pattern}, end; it != end; ++it)
        numbers.push_back(std::stod((*it)[1]));
    return numbers;
}

chart two_lines()
{
    return {"A & B",
            "rows",
            "sagas a second",
            {"0", "1 million"},
            {{"a<b", {2'400, 2'503}}, {"baseline", {2'600, 10}, true}},
            false};
}

}  // namespace

TEST_CASE("an axis goes from 0 past the largest value in round steps")
{
    CHECK(axis_marks(10, 2'503, false) == std::vector<double>{0, 500, 1'000, 1'500, 2'000, 2'500, 3'000});
    CHECK(axis_marks(1, 10, false) == std::vector<double>{0, 2, 4, 6, 8, 10});
    CHECK(axis_marks(4.2, 480, true) == std::vector<double>{1, 10, 100, 1'000});
    CHECK(axis_marks(20, 30, true) == std::vector<double>{10, 100});
}

TEST_CASE("every line, point, place and name is drawn, and everything is on the paper")
{
    auto const svg = draw(two_lines());
    CHECK(count(svg, "<polyline") == 2);
    CHECK(count(svg, "<circle") == 4);
    CHECK(count(svg, "stroke-dasharray") == 2);  // the line and its place in the key
    for (auto const* text :
         {">A &amp; B<", ">rows<", ">sagas a second<", ">1 million<", ">a&lt;b<", ">baseline<", ">3000<"})
        CHECK(count(svg, text) == 1);
    CHECK(count(svg, "prefers-color-scheme: dark") == 1);
    for (auto const* attribute : {"x", "x1", "x2", "cx"})
        for (auto const x : numbers_in(svg, attribute)) CHECK((x >= 0 && x <= 760));
    for (auto const* attribute : {"y", "y1", "y2", "cy"})
        for (auto const y : numbers_in(svg, attribute)) CHECK((y >= 0 && y <= 420));
}

TEST_CASE("what is more stands higher in a plot")
{
    auto const heights = numbers_in(draw(two_lines()), "cy");  // 2400, 2503, 2600, 10
    REQUIRE(heights.size() == 4);
    CHECK(heights[2] < heights[1]);
    CHECK(heights[1] < heights[0]);
    CHECK(heights[0] < heights[3]);
}

TEST_CASE("a chart of one place, of nothing but zeros or of nothing at all is still a chart")
{
    for (bool const logarithmic : {false, true})
        for (auto const& lines :
             {std::vector<line>{}, std::vector<line>{{"none", {}}}, std::vector<line>{{"zero", {0}}}}) {
            auto const svg = draw({"t", "x", "y", {"1"}, lines, logarithmic});
            CHECK(svg.ends_with("</svg>\n"));
            CHECK(count(svg, "nan") == 0);
            CHECK(count(svg, "inf") == 0);
        }
}
