#include "runtime/registry.hpp"

#include <skald/errors.hpp>

#include <algorithm>

namespace skald::runtime {

void registry::add(std::string_view definition, std::string_view step, registered_step hosted)
{
    std::pair const name{std::string{definition}, std::string{step}};
    auto& versions = steps_[name];
    if (versions.contains(hosted.version))
        throw configuration_error{"step " + name.second + " of " + name.first + " is hosted twice"};
    if (!versions.empty()) hosted.counts = versions.begin()->second.counts;
    versions.emplace(hosted.version, std::move(hosted));
    auto& limit = limits_[name.second];
    if (!limit) limit = std::make_unique<metrics::limit_metrics>();
}

registered_step const* registry::find(std::string_view definition, std::string_view step, int version) const
{
    auto const it = steps_.find({std::string{definition}, std::string{step}});
    if (it == steps_.end()) return nullptr;
    auto const found = it->second.lower_bound(version);
    return found == it->second.end() ? &it->second.rbegin()->second : &found->second;
}

int registry::known_version(std::string_view definition) const
{
    int known = 0;
    for (auto const& [name, versions] : steps_)
        if (name.first == definition) known = std::max(known, versions.rbegin()->first);
    return known;
}

step_bounds registry::bounds_of(std::string_view step) const
{
    step_bounds least;
    for_each([&](auto const&, auto const& name, registered_step const& hosted) {
        if (name != step) return;
        if (hosted.options.concurrency > 0) least.lanes = std::min(least.lanes, hosted.options.concurrency);
        least.batch = std::min(least.batch, hosted.options.batch);
    });
    return least;
}

std::size_t registry::prefetch() const
{
    std::size_t sum = 0;
    for_each_newest([&sum](auto const&, auto const&, registered_step const& hosted) {
        if (!hosted.handles) sum += hosted.options.prefetch;  // a handler has a queue of its own
    });
    return sum;
}

}  // namespace skald::runtime
