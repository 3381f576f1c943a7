// Whether this service hosts the first step of a saga that a handler starts.
#include "entry/request_guard.hpp"

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include <cxxabi.h>

namespace skald::entry_detail {
namespace {

std::string name_of(std::type_info const& type)
{
    int status = 0;
    std::unique_ptr<char, decltype(&std::free)> const name{abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                           &std::free};
    return name ? name.get() : type.name();
}

}  // namespace

// What follows comes to this service's queue: the first step, or its compensation.
void request_guard::refuse_unhosted(http::detail::started_saga const& saga) const
{
    if (steps_ == nullptr) return;
    auto const& first = saga.plan.front();
    std::string const step = "the first step of " + saga.definition + ", " + std::string{first.name};
    if (first.service != service_) {
        if (saga.first_class == nullptr) return;
        throw std::logic_error{step + ", belongs to the service " + std::string{first.service} +
                               ": start(saga, data) sends it there"};
    }
    auto const* const hosted = steps_->find(saga.definition, first.name, saga.version);
    if (hosted == nullptr)
        throw std::logic_error{step + ", is this service's, which does not host it: add it with host()"};
    auto const& expected = hosted->step->step_class();
    if (saga.first_class != nullptr && *saga.first_class != expected)
        throw std::logic_error{step + ", ran as a " + name_of(*saga.first_class) + ", and is hosted as a " +
                               name_of(expected) + ", which would compensate it: pass start() the class of host()"};
}

}  // namespace skald::entry_detail
