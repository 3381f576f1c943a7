// What a delivery asks for and what follows from it: no I/O.
#pragma once

#include "broker.hpp"
#include "message.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace bench_floor {

/// One of the three services: "orders", its queue's name, and the step that it has.
struct role
{
    std::string name;
    std::string service;
    std::string step;
};

/// Throws std::invalid_argument where there is no such service.
role role_of(std::string const& name);

struct step_work
{
    message const* received{};
    std::string scope, key, step;  // as the guard has them
    std::string fingerprint;
    bool back{};

    std::string order_id, customer, sku, quantity, cents;

    bool fresh{};  // set by the claim
    bool rejected() const { return !back && step == "charge-payment" && customer == "broke"; }
};

/// Throws std::runtime_error for what is no message of the bench's: the floor has no place to park it.
step_work read_step(message const& received, role const& here);

/// The message to the next step, or back to the first; a message without a destination where there is none.
message next_message(step_work const& done);

/// One message for the home, for all of them together; without a destination where the home is here, or nothing is new.
message progress_message(std::vector<step_work> const& done, role const& here);

}  // namespace bench_floor
