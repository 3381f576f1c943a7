#include "runtime/registry.hpp"

#include <skald/errors.hpp>

#include <algorithm>

namespace skald::runtime {

void registry::add(std::string_view definition, std::string_view step, registered_step hosted)
{
    std::pair const name{std::string{definition}, std::string{step}};
    if (!steps_.emplace(name, std::move(hosted)).second)
        throw configuration_error{"step " + name.second + " of " + name.first + " is hosted twice"};
    auto& limit = limits_[name.second];
    if (!limit) limit = std::make_unique<metrics::limit_metrics>();
}

registered_step const* registry::find(std::string_view definition, std::string_view step) const
{
    auto const it = steps_.find({std::string{definition}, std::string{step}});
    return it == steps_.end() ? nullptr : &it->second;
}

step_bounds registry::bounds_of(std::string_view step) const
{
    step_bounds least;
    for (auto const& [name, hosted] : steps_) {
        if (name.second != step) continue;
        if (hosted.options.concurrency > 0) least.lanes = std::min(least.lanes, hosted.options.concurrency);
        least.batch = std::min(least.batch, hosted.options.batch);
    }
    return least;
}

std::size_t registry::prefetch() const
{
    std::size_t sum = 0;
    for (auto const& [name, hosted] : steps_)
        if (!hosted.handles) sum += hosted.options.prefetch;  // a handler has a queue of its own
    return sum;
}

}  // namespace skald::runtime
