#include "runtime/step_lanes.hpp"

#include "core/identity.hpp"

#include <set>
#include <utility>

namespace skald::runtime {

step_lanes::step_lanes(limits const& of_steps)
{
    for (auto const& [name, lanes_max] : of_steps) steps_[name].lanes_max = lanes_max;
}

// Forward and back are one step: they write the same rows.
step_lanes::step* step_lanes::find(ports::delivery const& d)
{
    std::string_view name = d.message.type;
    if (name.ends_with(core::compensate_suffix)) name.remove_suffix(core::compensate_suffix.size());
    auto const found = steps_.find(name);
    return found == steps_.end() ? nullptr : &found->second;
}

std::vector<ports::delivery> step_lanes::enter(std::vector<ports::delivery> taken)
{
    if (steps_.empty()) return taken;
    std::vector<ports::delivery> run;
    std::set<step*> entered;
    std::lock_guard const lock{mutex_};
    for (auto& one : taken) {
        auto* const of = find(one);
        if (of != nullptr && !entered.contains(of)) {
            if (of->running == of->lanes_max) {
                of->waiting.push_back(std::move(one));
                continue;
            }
            ++of->running;
            entered.insert(of);
        }
        run.push_back(std::move(one));
    }
    return run;
}

std::vector<ports::delivery> step_lanes::leave(std::vector<ports::delivery> const& ran, std::size_t max)
{
    if (steps_.empty()) return {};
    std::vector<ports::delivery> next;
    std::set<step*> left;
    std::lock_guard const lock{mutex_};
    for (auto const& one : ran)
        if (auto* const of = find(one)) left.insert(of);
    for (auto* const of : left) {
        bool goes_on = false;
        for (; !of->waiting.empty() && next.size() < max; of->waiting.pop_front()) {
            next.push_back(std::move(of->waiting.front()));
            goes_on = true;
        }
        if (!goes_on) --of->running;
    }
    return next;
}

}  // namespace skald::runtime
