#include "runtime/registry.hpp"

#include <skald/errors.hpp>

namespace skald::runtime {

void registry::add(std::string_view definition, std::string_view step, registered_step hosted)
{
    std::pair const name{std::string{definition}, std::string{step}};
    if (!steps_.emplace(name, std::move(hosted)).second)
        throw configuration_error{"step " + name.second + " of " + name.first + " is hosted twice"};
}

registered_step const* registry::find(std::string_view definition, std::string_view step) const
{
    auto const it = steps_.find({std::string{definition}, std::string{step}});
    return it == steps_.end() ? nullptr : &it->second;
}

}  // namespace skald::runtime
