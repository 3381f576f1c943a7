// The steps that a worker hosts. Built in main, read-only from then on.
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/hosted_step.hpp>
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
    int version{1};  // of the definition, as this service was built with it
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
    /// Throws configuration_error if that step of that definition is already there.
    void add(std::string_view definition, std::string_view step, registered_step hosted);

    registered_step const* find(std::string_view definition, std::string_view step) const;

    bool empty() const { return steps_.empty(); }

    /// A name shared by several definitions is one step here, with the lowest of their bounds.
    step_bounds bounds_of(std::string_view step) const;

    /// The sum of what its steps request. A broker hands out a service's deliveries as they come and knows no steps.
    std::size_t prefetch() const;

private:
    std::map<std::pair<std::string, std::string>, registered_step> steps_;
};

}  // namespace skald::runtime
