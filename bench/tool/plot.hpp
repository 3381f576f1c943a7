// Line charts as SVG, without a library: a handful of lines, readable on a light page and on a dark one.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace skald_bench {

struct line
{
    std::string name;
    std::vector<double> values;  // one for each place on the x axis
    bool dashed{};
};

struct chart
{
    std::string title;
    std::string x_label, y_label;
    std::vector<std::string> places;  // along the x axis, evenly spaced
    std::vector<line> lines;
    bool logarithmic{};  // the y axis
};

/// A whole SVG file.
std::string draw(chart const& what);

/// Labels for an axis that goes up to `most`: from 0 in steps of 1, 2 or 5 times a power of ten; or, if logarithmic,
/// the powers of ten around `least` and `most`.
std::vector<double> axis_marks(double least, double most, bool logarithmic);

}  // namespace skald_bench
