#include "picture.hpp"

#include "words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::console {
namespace {

using state = run::state;

// In the picture's own units, which are pixels where there is room.
constexpr int margin = 22, card_width = 216, card_height = 72, gap_min = 54, gap_max = 96;
constexpr int back_width = 204, back_height = 44;
constexpr int lane_gap = 8, lane_label = 30, above_lanes = 28, width_min = 1096;

struct layout
{
    saga_story const* story{};
    int gap{gap_min};
    std::vector<int> lanes_y{}, lanes_height{};
    int width{}, height{};

    int x(std::size_t station) const { return margin + static_cast<int>(station) * (card_width + gap); }
    int y(std::size_t station) const
    {
        auto const& service = story->stations[station].service;
        auto const it = std::ranges::find_if(story->lanes, [&](auto const& l) { return l.service == service; });
        return lanes_y.at(static_cast<std::size_t>(it - story->lanes.begin())) + lane_label;
    }
    int middle(std::size_t station) const { return y(station) + card_height / 2; }
    int back_x(std::size_t station) const { return x(station) + (card_width - back_width) / 2; }
    int back_y(std::size_t station) const { return y(station) + card_height + 12; }
    int back_middle(std::size_t station) const { return back_y(station) + back_height / 2; }
};

layout measure(saga_story const& story)
{
    layout l{.story = &story};
    int const stations = std::max(static_cast<int>(story.stations.size()), 1), gaps = std::max(stations - 1, 1);
    l.gap = std::clamp((width_min - 2 * margin - stations * card_width) / gaps, gap_min, gap_max);
    l.width = std::max(2 * margin + stations * card_width + (stations - 1) * l.gap, width_min);
    l.height = above_lanes;
    for (auto const& lane : story.lanes) {
        bool const goes_back = std::ranges::any_of(
            story.stations, [&](auto const& s) { return s.service == lane.service && s.back.has_value(); });
        l.lanes_y.push_back(l.height);
        l.lanes_height.push_back(lane_label + card_height + (goes_back ? 12 + back_height : 0) + 16);
        l.height += l.lanes_height.back() + lane_gap;
    }
    return l;
}

markup text(std::string_view css_class, int x, int y, std::string_view words)
{
    return element("text", {{"class", css_class}, {"x", x}, {"y", y}}, words);
}

// Cut at a character, with the whole text as a tooltip.
markup text_within(std::string_view css_class, int x, int y, std::string const& words, std::size_t bytes_max)
{
    if (words.size() <= bytes_max) return text(css_class, x, y, words);
    auto end = bytes_max - 1;
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0u) == 0x80u) --end;
    return element("text", {{"class", css_class}, {"x", x}, {"y", y}},
                   element("title", words) + markup{words.substr(0, end) + "…"});
}

markup path(std::string_view css_class, std::string const& d)
{
    return element("path", {{"class", css_class}, {"d", d}});
}

std::string curve(int x1, int y1, int x2, int y2)
{
    int const half = (x2 - x1) / 2;
    return fmt::format("M{} {} C{} {} {} {} {} {}", x1, y1, x1 + half, y1, x2 - half, y2, x2, y2);
}

// What the sign in the circle says: done, undone, no, stopped, under way, not yet.
std::string_view sign(run const& of, bool is_compensation)
{
    switch (of.is) {
    case state::done:
        return is_compensation ? "M4 -3 L-1 -3 A3.5 3.5 0 1 0 -1 4 L3 4 M1.5 -6 L4 -3 L1.5 0"
                               : "M-4.5 0 L-1.5 3.5 L4.5 -3.5";
    case state::rejected:
    case state::cancelled: return "M-3.5 -3.5 L3.5 3.5 M3.5 -3.5 L-3.5 3.5";
    case state::unknown: return "M-2.5 -2 A2.5 2.5 0 1 1 0 1 L0 2 M0 4.8 L0 5";
    case state::parked: return "M-2.5 -4 L-2.5 4 M2.5 -4 L2.5 4";
    case state::retrying:
    case state::running: return "M0 -4.5 L0 0 L3.5 2";
    default: return of.is_next ? "M-3.5 0 L3.5 0 M0.5 -3 L3.5 0 L0.5 3" : "M-0.5 0 L0.5 0";
    }
}

markup sign_at(run const& of, bool is_compensation, int x, int y)
{
    return element("g", {{"class", "sign"}, {"transform", fmt::format("translate({} {})", x, y)}},
                   element("circle", {{"r", 10}}) + element("path", {{"d", sign(of, is_compensation)}}));
}

markup draw_lane(layout const& l, std::size_t index)
{
    auto const& lane = l.story->lanes[index];
    int const y = l.lanes_y[index];
    bool const is_away = !lane.is_given || !lane.why_away.empty();
    auto drawn = element("rect", {{"class", is_away ? "lane away" : "lane"},
                                  {"x", 0},
                                  {"y", y},
                                  {"width", l.width},
                                  {"height", l.lanes_height[index]},
                                  {"rx", 10}});
    auto label = element("tspan", {{"class", "svc"}}, lane.service);
    if (lane.service == l.story->home) label += element("tspan", {{"class", "soft"}, {"dx", 8}}, "home");
    if (!lane.is_given)
        label +=
            element("tspan", {{"class", "warn"}, {"dx", 8}}, "not given to this console: shown as its home knows it");
    else if (is_away)
        label += element("tspan", {{"class", "warn"}, {"dx", 8}}, "its database is away: shown as its home knows it");
    if (auto const& given = lane.command; given && given->action != "resume" && !l.story->facts.finished_at)
        label += element("tspan", {{"class", "soft"}, {"dx", 8}}, "the " + given->action + " has arrived");
    return drawn + element("text", {{"x", 14}, {"y", y + 20}}, label);
}

markup draw_station(layout const& l, std::size_t index)
{
    auto const& s = l.story->stations[index];
    auto const& of = s.forward;
    int const x = l.x(index), y = l.y(index);
    auto drawn = element("rect", {{"class", "card"},
                                  {"x", x},
                                  {"y", y},
                                  {"width", card_width},
                                  {"height", card_height},
                                  {"rx", s.kind == step_kind::pivot ? 20 : 10}}) +
                 sign_at(of, false, x + 20, y + 22) + text_within("name", x + 38, y + 26, s.step, 21) +
                 text_within("soft", x + 14, y + 46, in_short(of, l.story->facts.created_at, false), 34) +
                 text_within("count", x + 14, y + 62, deliveries(of, false), 38);
    return element("g", {{"class", "station " + tone(of, false)}}, drawn);
}

markup draw_back(layout const& l, std::size_t index)
{
    auto const& of = *l.story->stations[index].back;
    int const x = l.back_x(index), y = l.back_y(index);
    auto drawn =
        element("rect",
                {{"class", "card"}, {"x", x}, {"y", y}, {"width", back_width}, {"height", back_height}, {"rx", 22}}) +
        sign_at(of, true, x + 20, y + 22) +
        text_within("soft", x + 38, y + 19, in_short(of, l.story->facts.created_at, true), 28) +
        text_within("count", x + 38, y + 34, deliveries(of, true), 32);
    return element("g", {{"class", "station back " + tone(of, true)}}, drawn);
}

// From each station to the next: travelled, under way, or not yet.
markup draw_forward(layout const& l)
{
    markup drawn;
    for (std::size_t i = 0; i + 1 < l.story->stations.size(); ++i) {
        auto const& to = l.story->stations[i + 1].forward;
        bool const is_travelled = to.is != state::pending && to.is != state::never;
        auto const css = is_travelled ? "way" : to.is_next ? "way next" : "way never";
        drawn += path(css, curve(l.x(i) + card_width, l.middle(i), l.x(i + 1), l.middle(i + 1)));
    }
    return drawn;
}

// From the station that turned the saga around, back along what is undone.
markup draw_way_back(layout const& l)
{
    markup drawn;
    auto const& stations = l.story->stations;
    std::size_t from = stations.size();
    for (std::size_t i = stations.size(); i-- > 0;) {
        bool const turned = stations[i].forward.is == state::rejected || stations[i].forward.is == state::cancelled;
        if (turned && !stations[i].back) from = std::min(from, i);
    }
    bool starts_at_card = from < stations.size();
    for (std::size_t i = stations.size(); i-- > 0;) {
        if (!stations[i].back) continue;
        auto const css =
            stations[i].back->is == state::pending && !stations[i].back->is_next ? "way back never" : "way back";
        if (from < stations.size() && i < from)
            drawn +=
                path(css, starts_at_card
                              ? curve(l.x(from), l.middle(from) + 18, l.back_x(i) + back_width, l.back_middle(i))
                              : curve(l.back_x(from), l.back_middle(from), l.back_x(i) + back_width, l.back_middle(i)));
        from = i;
        starts_at_card = false;
    }
    return drawn;
}

// After which step there is only forward: the pivot or, without one, the last that can be undone.
markup draw_point_of_no_return(layout const& l)
{
    auto const& stations = l.story->stations;
    std::size_t after = stations.size();
    for (std::size_t i = 0; i < stations.size(); ++i)
        if (stations[i].kind != step_kind::retriable) after = i;
    bool const is_last = after + 1 >= stations.size();
    if (after == stations.size() || (is_last && stations[after].kind != step_kind::pivot)) return {};
    int const x = is_last ? l.x(after) + card_width + 12 : l.x(after) + card_width + l.gap / 2;
    bool const is_passed = stations[after].forward.is == state::done;
    return element("line", {{"class", is_passed ? "turn passed" : "turn"},
                            {"x1", x},
                            {"y1", above_lanes - 6},
                            {"x2", x},
                            {"y2", l.height - 4}}) +
           element("text", {{"class", "soft"}, {"x", x}, {"y", 16}, {"text-anchor", is_last ? "end" : "middle"}},
                   is_passed ? "point of no return, passed" : "point of no return");
}

// Where the message is that the saga waits for: at the beginning of the way in an outbox, half-way in a queue, at its
// end where it is parked.
markup draw_message(layout const& l)
{
    for (std::size_t i = 1; i < l.story->stations.size(); ++i) {
        auto const& of = l.story->stations[i].forward;
        if (!of.is_next) continue;
        // One that has begun waits for no message.
        if (!of.message && (of.is == state::running || of.is == state::unknown)) return {};
        bool const is_parked = of.message && of.message->where == message_place::kind::parked;
        bool const is_in_outbox = of.message && !is_parked;
        int const x1 = l.x(i - 1) + card_width, x2 = l.x(i), y1 = l.middle(i - 1), y2 = l.middle(i);
        int const x = is_in_outbox ? x1 + 8 : is_parked ? x2 - 8 : (x1 + x2) / 2;
        int const y = is_in_outbox ? y1 : is_parked ? y2 : (y1 + y2) / 2;
        return element(
            "g",
            {{"class", is_parked ? "message no" : "message"}, {"transform", fmt::format("translate({} {})", x, y)}},
            element("title", whereabouts(of, l.story->stations[i].service, l.story->facts.now)) +
                element("rect", {{"x", -9}, {"y", -6}, {"width", 18}, {"height", 12}, {"rx", 2}}) +
                element("path", {{"d", "M-9 -5 L0 2 L9 -5"}}));
    }
    return {};
}

}  // namespace

std::string describe(saga_story const& story)
{
    std::string said = "The path of the saga.";
    for (auto const& s : story.stations) {
        said += fmt::format(" {} at {}: {}", s.step, s.service, in_short(s.forward, story.facts.created_at, false));
        if (s.back) said += ", then " + in_short(*s.back, story.facts.created_at, true);
        said += '.';
    }
    return said;
}

markup draw(saga_story const& story)
{
    auto const l = measure(story);
    markup inside;
    for (std::size_t i = 0; i < story.lanes.size(); ++i) inside += draw_lane(l, i);
    inside += draw_point_of_no_return(l) + draw_forward(l) + draw_way_back(l);
    for (std::size_t i = 0; i < story.stations.size(); ++i) {
        inside += draw_station(l, i);
        if (story.stations[i].back) inside += draw_back(l, i);
    }
    inside += draw_message(l);
    // Its own size at least: a plan of many steps is scrolled, not shrunk.
    return element("svg",
                   {{"class", "path"},
                    {"viewBox", fmt::format("0 0 {} {}", l.width, l.height)},
                    {"width", l.width},
                    {"height", l.height},
                    {"role", "img"},
                    {"aria-label", describe(story)}},
                   inside);
}

}  // namespace skald::console
