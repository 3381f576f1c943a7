// The steps that a worker hosts. Built in main, read-only from then on.
#pragma once

#include "metrics/step_metrics.hpp"

#include <skald/definition.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/message.hpp>
#include <skald/step_options.hpp>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::runtime {

struct registered_step
{
    std::shared_ptr<detail::hosted_step const> step;
    step_options options;
    step_kind kind{};
    int version{1};                                    // of the definition that it is hosted with
    std::shared_ptr<message_options const> handles{};  // of a message handler: which messages; null: it is a step
    std::vector<detail::upcast_to> upcasts{};          // of that definition, in order
    std::shared_ptr<metrics::step_metrics> counts{std::make_shared<metrics::step_metrics>()};
};

/// The upper bounds of a step's limit.
struct step_bounds
{
    std::size_t lanes{std::numeric_limits<std::size_t>::max()};
    std::size_t batch{std::numeric_limits<std::size_t>::max()};
};

class registry
{
public:
    static constexpr int newest = std::numeric_limits<int>::max();

    registry() = default;
    /// `for_deploy`: how long a message that no step here is for waits for a process that has its step.
    explicit registry(std::chrono::milliseconds for_deploy) : for_deploy_{for_deploy} {}

    /// A message handler has the definition ''. Throws configuration_error if that step of that version of the
    /// definition is already there.
    void add(std::string_view definition, std::string_view step, registered_step hosted);

    /// The step for messages of that version: of those versions with which it is hosted, the first that is not older;
    /// if all are older, the newest. Null if it is not hosted.
    registered_step const* find(std::string_view definition, std::string_view step, int version = newest) const;

    /// The newest version of the definition with which any step is hosted; 0: none is.
    int known_version(std::string_view definition) const;

    std::chrono::milliseconds for_deploy() const { return for_deploy_; }

    bool empty() const { return steps_.empty(); }

    /// A name shared by several definitions is one step here, with the lowest of their bounds.
    step_bounds bounds_of(std::string_view step) const;

    /// Where the limit of a step of that name is shown. Throws std::out_of_range if there is none.
    metrics::limit_metrics& limit_of(std::string_view step) const { return *limits_.at(std::string{step}); }
    std::map<std::string, std::unique_ptr<metrics::limit_metrics>> const& limits() const { return limits_; }

    /// Calls `what` with the definition, the name and the registered_step of each, which may be there in several
    /// versions, the oldest first. These share their counts.
    template <class What>
    void for_each(What what) const
    {
        for (auto const& [name, versions] : steps_)
            for (auto const& [version, hosted] : versions) what(name.first, name.second, hosted);
    }

    /// The same, with the newest version of each alone.
    template <class What>
    void for_each_newest(What what) const
    {
        for (auto const& [name, versions] : steps_) what(name.first, name.second, versions.rbegin()->second);
    }

    /// The sum of what its steps request. A broker hands out a service's deliveries as they come and knows no steps.
    std::size_t prefetch() const;

private:
    std::chrono::milliseconds for_deploy_{};
    std::map<std::pair<std::string, std::string>, std::map<int, registered_step>> steps_;  // by version
    std::map<std::string, std::unique_ptr<metrics::limit_metrics>> limits_;                // by step
};

}  // namespace skald::runtime
