// Where the servers of a private stack are: what `scripts/stack.sh up` prints.
#pragma once

#include <stdexcept>
#include <string>

namespace skald::rig {

/// What is wrong with the command line or the environment, and what to do about it.
class usage_error : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

struct addresses
{
    std::string orders_database;
    std::string payments_database;
    std::string shipping_database;
    std::string broker;  // empty: none
};

/// The variable that has the broker's address, for a SKALD_TRANSPORT; empty if that has none.
std::string broker_named(std::string const& transport);

/// DATABASE_URL_ORDERS, DATABASE_URL_PAYMENTS, DATABASE_URL_SHIPPING, and the broker's in `broker`. Throws usage_error;
/// `script` starts a stack by itself.
addresses addresses_from_environment(std::string const& script, std::string const& broker = "AMQP_URL");

}  // namespace skald::rig
