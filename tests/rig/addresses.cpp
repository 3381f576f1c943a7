#include "rig/addresses.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace skald::rig {

addresses addresses_from_environment(std::string const& script, bool needs_broker)
{
    auto const value_of = [&](char const* name) -> std::string {
        char const* const value = std::getenv(name);
        if (value == nullptr || *value == '\0')
            throw usage_error{fmt::format("{} is not set: start a stack with scripts/stack.sh up DIR and take over the "
                                          "lines that it prints, or run {}, which does all of it",
                                          name, script)};
        return value;
    };
    return {value_of("DATABASE_URL_ORDERS"), value_of("DATABASE_URL_PAYMENTS"), value_of("DATABASE_URL_SHIPPING"),
            needs_broker ? value_of("AMQP_URL") : std::string{}};
}

}  // namespace skald::rig
