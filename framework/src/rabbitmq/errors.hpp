// What can go wrong with a broker, as the rest of this folder throws it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace skald::rabbitmq {

/// The connection can't be used any more. When it was lost does not matter: the outcome of everything outstanding on it
/// is unknown. what() is one line for an operator.
class connection_lost : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/// rabbitmq-c can't decode what the broker sent, such as header tables nested deeper than it allows (100 since 0.12).
/// Nothing more can be read from the connection, but it can still be written to.
class undecodable : public connection_lost
{
public:
    using connection_lost::connection_lost;
};

/// The broker closed the channel or the connection and said why.
class refused_by_broker : public connection_lost
{
public:
    refused_by_broker(std::uint16_t code, std::string const& reason) : connection_lost{reason}, code_{code} {}
    std::uint16_t code() const { return code_; }

private:
    std::uint16_t code_;
};

/// A queue or an exchange exists with other properties than Skald needs, or is missing where this process declares
/// nothing. No retry fixes that: what() names it, quotes the broker and says what to do.
class topology_mismatch : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

}  // namespace skald::rabbitmq
