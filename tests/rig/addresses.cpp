#include "rig/addresses.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace skald::rig {

std::string broker_named(std::string const& transport)
{
    if (transport == "postgres") return {};
    return transport == "kafka" ? "SKALD_KAFKA_BROKERS" : "AMQP_URL";
}

addresses addresses_from_environment(std::string const& script, std::string const& broker)
{
    auto const value_of = [&](std::string const& name) -> std::string {
        char const* const value = std::getenv(name.c_str());
        if (value == nullptr || *value == '\0')
            throw usage_error{fmt::format("{} is not set: start a stack with scripts/stack.sh up DIR and take over the "
                                          "lines that it prints, or run {}, which does all of it",
                                          name, script)};
        return value;
    };
    return {value_of("DATABASE_URL_ORDERS"), value_of("DATABASE_URL_PAYMENTS"), value_of("DATABASE_URL_SHIPPING"),
            broker.empty() ? std::string{} : value_of(broker)};
}

}  // namespace skald::rig
