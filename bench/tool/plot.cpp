#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

namespace skald_bench {
namespace {

constexpr double width = 760, height = 420, left = 80, right = 190, top = 50, bottom = 60;

// Distinguishable for people who do not see red and green, on white and on black.
constexpr std::array<char const*, 6> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

constexpr std::string_view style = R"(<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.grid { stroke: #d0d7de; stroke-width: 1 }
.axis { stroke: #57606a; stroke-width: 1 }
.back { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .grid { stroke: #30363d }
  .axis { stroke: #8b949e }
  .back { fill: #0d1117 }
}
</style>
)";

std::string escaped(std::string_view text)
{
    std::string safe;
    for (char const c : text) {
        if (c == '<') safe += "&lt;";
        else if (c == '>') safe += "&gt;";
        else if (c == '&') safe += "&amp;";
        else if (c == '"') safe += "&quot;";
        else safe += c;
    }
    return safe;
}

std::string number(double value)
{
    if (value >= 1'000'000) return fmt::format("{:g}M", value / 1'000'000);
    if (value >= 10'000) return fmt::format("{:g}k", value / 1'000);
    return fmt::format("{:g}", value);
}

/// Where values are on the paper.
class frame
{
public:
    explicit frame(chart const& what) : logarithmic_{what.logarithmic}, places_{what.places.size()}
    {
        double least = std::numeric_limits<double>::max(), most = 0;
        for (auto const& one : what.lines)
            for (auto const value : one.values)
                if (value > 0) least = std::min(least, value), most = std::max(most, value);
        marks = axis_marks(least, most, logarithmic_);
    }

    double x(std::size_t place) const
    {
        auto const between = places_ < 2 ? 0.5 : static_cast<double>(place) / static_cast<double>(places_ - 1);
        return left + 20 + between * (width - left - right - 40);
    }

    double y(double value) const
    {
        auto const low = marks.front(), high = marks.back();
        auto const part =
            logarithmic_ ? (std::log10(std::max(value, low)) - std::log10(low)) / (std::log10(high) - std::log10(low))
                         : (value - low) / (high - low);
        return height - bottom - part * (height - top - bottom);
    }

    std::vector<double> marks;

private:
    bool logarithmic_;
    std::size_t places_;
};

std::string draw_axes(chart const& what, frame const& paper)
{
    std::string svg;
    for (auto const mark : paper.marks)
        svg +=
            fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n"
                        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                        left, width - right, paper.y(mark), paper.y(mark), left - 8, paper.y(mark) + 4, number(mark));
    for (std::size_t i = 0; i < what.places.size(); ++i)
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", paper.x(i),
                           height - bottom + 20, escaped(what.places[i]));
    svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n", left,
                       width - right, height - bottom);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", (left + width - right) / 2,
                       height - 15, escaped(what.x_label));
    svg += fmt::format("<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                       (top + height - bottom) / 2, escaped(what.y_label));
    return svg;
}

std::string draw_line(line const& one, std::size_t number_of_line, frame const& paper)
{
    auto const* const colour = colours[number_of_line % colours.size()];
    std::string points, dots;
    for (std::size_t i = 0; i < one.values.size(); ++i) {
        points += fmt::format("{:.1f},{:.1f} ", paper.x(i), paper.y(one.values[i]));
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", paper.x(i),
                            paper.y(one.values[i]), colour);
    }
    auto const dashes = one.dashed ? " stroke-dasharray=\"6 4\"" : "";
    auto const key_y = top + 20 * static_cast<double>(number_of_line);
    return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} points=\"{}\"/>\n{}", colour, dashes,
                       points, dots) +
           fmt::format(
               "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"2\"{}/>\n"
               "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
               width - right + 15, width - right + 40, key_y, key_y, colour, dashes, width - right + 47, key_y + 4,
               escaped(one.name));
}

}  // namespace

std::vector<double> axis_marks(double least, double most, bool logarithmic)
{
    if (most <= 0) return logarithmic ? std::vector<double>{1, 10} : std::vector<double>{0, 1};
    std::vector<double> marks;
    if (logarithmic) {
        auto mark = std::pow(10, std::floor(std::log10(least)));
        for (; marks.empty() || marks.back() < most || marks.size() < 2; mark *= 10) marks.push_back(mark);
        return marks;
    }
    auto const power = std::pow(10, std::floor(std::log10(most / 5)));
    auto step = power * 10;
    for (double const times : {1.0, 2.0, 5.0})
        if (most / (times * power) <= 6) {
            step = times * power;
            break;
        }
    for (int i = 0; marks.empty() || marks.back() < most; ++i) marks.push_back(i * step);
    return marks;
}

std::string draw(chart const& what)
{
    frame const paper{what};
    auto svg =
        fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                    width, height, escaped(what.title));
    svg += style;
    svg += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height);
    svg += fmt::format("<text class=\"title\" x=\"{}\" y=\"26\">{}</text>\n", left, escaped(what.title));
    svg += draw_axes(what, paper);
    for (std::size_t i = 0; i < what.lines.size(); ++i) svg += draw_line(what.lines[i], i, paper);
    return svg + "</svg>\n";
}

}  // namespace skald_bench
