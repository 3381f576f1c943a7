// Where the message of a rehearsed step comes from: a parked delivery, the outbox, the saga's own row, or a file.
#pragma once

#include "core/message.hpp"
#include "postgres/connection.hpp"
#include "rehearsal/rehearsal.hpp"

#include <string>
#include <vector>

namespace skald::rehearsal {

struct source
{
    core::message message;
    std::string from;                // "parked delivery 17"
    std::string preparation;         // SQL, to be run in the transaction before the claim
    std::string saga_ended;          // how, if its home is here and it has ended
    std::vector<std::string> notes;  // what differs from the delivery that would really come
};

/// Throws configuration_error if nothing here has the step's message or data.
source find_source(postgres::connection& c, wanted const& what, std::string const& service,
                   std::span<hosted_plan const> plans);

}  // namespace skald::rehearsal
