// The steps that a worker hosts. Built in main, read-only from then on.
#pragma once

#include "metrics/step_metrics.hpp"

#include <skald/definition.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/message.hpp>
#include <skald/step_options.hpp>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace skald::runtime {

struct registered_step
{
    std::shared_ptr<detail::hosted_step const> step;
    step_options options;
    step_kind kind{};
    int version{1};                                    // of the definition, as this service was built with it
    std::shared_ptr<message_options const> handles{};  // of a message handler: which messages; null: it is a step
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
    /// A message handler has the definition ''. Throws configuration_error if that step of that definition is already
    /// there.
    void add(std::string_view definition, std::string_view step, registered_step hosted);

    registered_step const* find(std::string_view definition, std::string_view step) const;

    bool empty() const { return steps_.empty(); }

    /// A name shared by several definitions is one step here, with the lowest of their bounds.
    step_bounds bounds_of(std::string_view step) const;

    /// Where the limit of a step of that name is shown. Throws std::out_of_range if there is none.
    metrics::limit_metrics& limit_of(std::string_view step) const { return *limits_.at(std::string{step}); }
    std::map<std::string, std::unique_ptr<metrics::limit_metrics>> const& limits() const { return limits_; }

    /// Calls `what` with the definition, the name and the registered_step of each.
    template <class What>
    void for_each(What what) const
    {
        for (auto const& [name, hosted] : steps_) what(name.first, name.second, hosted);
    }

    /// The sum of what its steps request. A broker hands out a service's deliveries as they come and knows no steps.
    std::size_t prefetch() const;

private:
    std::map<std::pair<std::string, std::string>, registered_step> steps_;
    std::map<std::string, std::unique_ptr<metrics::limit_metrics>> limits_;  // by step
};

}  // namespace skald::runtime
