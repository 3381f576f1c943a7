// Whether this service hosts the first step of a saga that a handler starts.
#include "entry/request_guard.hpp"

#include <stdexcept>

namespace skald::entry_detail {

// What follows comes to this service's queue: the first step, or its compensation.
void request_guard::refuse_unhosted(http::detail::started_saga const& saga) const
{
    if (steps_ == nullptr) return;
    auto const& first = saga.plan.front();
    std::string const step = "the first step of " + saga.definition + ", " + std::string{first.name};
    if (first.service != service_) {
        if (saga.first_ran.empty()) return;
        throw std::logic_error{step + ", belongs to the service " + std::string{first.service} +
                               ": start(saga, data) sends it there"};
    }
    // Its class may be another one: a batch's derives from the one that ran in the request.
    if (steps_->find(saga.definition, first.name, saga.version) == nullptr)
        throw std::logic_error{step + ", is this service's, which does not host it: add it with host()"};
}

}  // namespace skald::entry_detail
