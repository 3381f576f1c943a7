#include "testing/schedule.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace skald::testing::inner {
namespace {

constexpr std::array manners{manner::twice, manner::several_times, manner::twice_at_once, manner::late,
                             manner::after_neighbour};

constexpr int for_ever = std::numeric_limits<int>::max();

way rejected_at(planned_step const& step)
{
    way w{"reject " + std::string{step.name}};
    w.rejects = step.name;
    w.final_statuses = {"compensated"};
    return w;
}

void add_faults(std::vector<way>& all, way const& along, std::string const& step, std::string const& prefix,
                std::vector<std::string> once, std::vector<std::string> ever)
{
    auto w = along;
    w.fails = step;
    w.faults = 1;
    w.name = prefix + "fail " + step + " once";
    w.like = along.name;
    w.final_statuses = std::move(once);
    all.push_back(w);
    // Nothing of the step remains, whether it rejected or failed.
    auto const no = std::ranges::find(all, "reject " + step, &way::name);
    w.like = no == all.end() ? "" : no->name;
    w.faults = for_ever;
    w.name = prefix + "fail " + step + " indefinitely";
    w.final_statuses = std::move(ever);
    all.push_back(w);
}

// `step`: with its ".compensate". Once, they lead where `along` does.
void add_calls(std::vector<way>& all, way const& along, std::string const& step, std::string const& prefix,
               std::vector<std::string> const& once, std::vector<std::string> ever)
{
    auto w = along;
    w.like = along.name;
    w.final_statuses = once;
    w.faults = 1;
    for (auto const* const part : {".call", ".settle"}) {
        w.fails = step + part;
        w.name = prefix + "fail " + w.fails + " once";
        all.push_back(w);
    }
    w.fails = {};
    w.refuses = step;
    w.name = prefix + "refuse " + step + ".call once";
    all.push_back(w);
    auto const no = std::ranges::find(all, "reject " + step, &way::name);
    w.like = no == all.end() ? "" : no->name;
    w.faults = for_ever;
    w.name = prefix + "refuse " + step + ".call indefinitely";
    w.final_statuses = std::move(ever);
    all.push_back(w);
}

void add_started(std::vector<way>& all, planned_step const& step, ports::started_kind kind)
{
    std::string const name{step.name};
    bool const is_call = kind == ports::started_kind::call;
    auto const no = step.kind == step_kind::retriable ? "stuck" : "compensated";
    if (is_call) add_calls(all, all.front(), name, "", {"completed"}, {no});
    else {
        way w{"no signal for " + name};
        w.not_signalled = name;
        w.final_statuses = {"completed", "compensated"};
        all.push_back(w);
    }
    if (step.kind == step_kind::retriable) return;
    way w{"cancel while " + name + (is_call ? " is to be called" : " waits")};
    w.cancelled_while = name;
    w.like = "reject " + name;
    w.final_statuses = {"compensated"};
    all.push_back(w);
}

}  // namespace

std::vector<way> ways_of(std::span<planned_step const> plan, nature const& nature_of)
{
    way forward{"forward"};
    forward.final_statuses = {"completed"};
    std::vector<way> all{forward};
    planned_step const* last_no = nullptr;
    for (auto const& step : plan) {
        if (step.kind == step_kind::retriable) continue;
        last_no = &step;
        all.push_back(rejected_at(step));
    }
    for (auto const& step : plan)
        add_faults(all, forward, std::string{step.name}, "", {"completed"},
                   {step.kind == step_kind::retriable ? "stuck" : "compensated"});
    for (auto const& step : plan) {
        if (step.kind != step_kind::compensatable || &step == last_no) continue;
        auto const no = rejected_at(*last_no);
        auto const back = std::string{step.name} + ".compensate";
        add_faults(all, no, back, no.name + " and ", {"compensated"}, {"stuck"});
        if (nature_of(step.name, false)) add_calls(all, no, back, no.name + " and ", {"compensated"}, {"stuck"});
    }
    for (auto const& step : plan)
        if (auto const kind = nature_of(step.name, true)) add_started(all, step, *kind);
    for (auto const& step : plan) {
        if (step.kind == step_kind::retriable) continue;
        way w{"cancel before " + std::string{step.name}};
        w.cancelled_before = step.name;
        w.like = rejected_at(step).name;
        w.final_statuses = {"compensated"};
        all.push_back(w);
    }
    return all;
}

std::string disturbance::kind(int copies) const
{
    if (auto const* const point = std::get_if<crash_point>(&what)) return std::string{name_of(*point)};
    switch (std::get<manner>(what)) {
    case manner::twice: return "deliver twice";
    case manner::several_times: return "deliver " + std::to_string(copies) + " times";
    case manner::twice_at_once: return "deliver twice at once";
    case manner::late: return "deliver again at the end";
    case manner::after_neighbour: return "deliver after its neighbour";
    }
    return {};
}

std::string disturbance::name(int copies) const
{
    auto const how = kind(copies);
    if (std::holds_alternative<crash_point>(what))
        return how + " at " + delivery + (nth > 1 ? " (time " + std::to_string(nth) + ')' : "");
    return "deliver " + delivery + how.substr(std::string_view{"deliver"}.size());
}

std::string schedule::name(int copies) const
{
    auto text = along.name;
    for (auto const& one : disturbances) text += "; " + one.name(copies);
    return text;
}

std::vector<disturbance> disturbances_of(std::vector<delivered> const& deliveries, std::vector<visit> const& visits)
{
    auto const is_claimed = [&](std::string const& name) {
        return std::ranges::any_of(
            visits, [&](visit const& v) { return v.delivery == name && v.point == crash_point::after_claim; });
    };
    std::vector<disturbance> all;
    for (auto const& d : deliveries) {
        for (auto const how : manners) {
            if (how == manner::twice_at_once && !is_claimed(d.name)) continue;
            if (how == manner::after_neighbour && !d.had_neighbour) continue;
            all.push_back({d.name, how, 1});
        }
    }
    for (auto const& v : visits) all.push_back({v.delivery, v.point, v.nth});
    return all;
}

}  // namespace skald::testing::inner
