// What a delivery requires and what follows from it: no I/O.
#pragma once

#include "broker.hpp"
#include "message.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace bench_baseline {

struct planned_step
{
    std::string name, service, kind;
};

/// A saga as its messages describe it: its first step is at its home.
struct saga_plan
{
    std::string name;
    std::vector<planned_step> steps;
};

/// One of the three services: "orders", its queue's name, and the saga that it has steps of.
struct role
{
    std::string name;
    std::string service;
    bool shop{};
    saga_plan plan;

    bool is_home() const { return service == plan.steps.front().service; }
};

/// Of the bench's own saga, or of the order example. Throws std::invalid_argument if there is no such service.
role role_of(std::string const& name, bool shop);

struct step_work
{
    message const* received{};
    std::string scope, key, step;  // as the guard has them
    std::string fingerprint;
    std::size_t place{};  // in the plan
    bool back{};

    std::string order_id, customer, sku, quantity, cents;

    bool fresh{};     // set by the claim
    bool rejected{};  // set by the business
};

/// Throws std::runtime_error for anything that is not a message of the bench: the baseline has no place to park it.
step_work read_step(message const& received, role const& here);

/// The message to the next step, or back to the previous one; a message without a destination if there is none.
message next_message(step_work const& done, role const& here);

/// Why the saga compensates, if it does.
std::string reason_of(step_work const& done);

/// The state of the saga that ends with this step; empty if it goes on.
std::string end_of_saga(step_work const& done, role const& here);

/// One message to the home about all of them; without a destination if the home is here, or nothing is new.
message progress_message(std::vector<step_work> const& done, role const& here);

}  // namespace bench_baseline
