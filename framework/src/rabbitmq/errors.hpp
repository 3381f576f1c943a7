// What can go wrong with a broker, as the rest of this folder throws it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace skald::rabbitmq {

/// The connection can't be used any more. Where it was lost does not matter: everything outstanding on it is unknown.
/// what() is one line for an operator.
class connection_lost : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
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

/// A queue or an exchange exists with other properties than Skald needs. No retry repairs that: what() names it, quotes
/// the broker and says what to do.
class topology_mismatch : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

}  // namespace skald::rabbitmq
