// A client of the payment provider that tools/gateway stands in for. Who charges must know, of each call that brought
// no receipt, whether it may have charged: that is the type of the exception.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace order_saga {

/// What the gateway says that it did: a charge, or a refund.
struct receipt
{
    std::string id;
    std::int64_t amount{};  // in cents
    bool declined{};        // the gateway's no: nothing was charged

    bool operator==(receipt const&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(receipt, id, amount, declined)

/// A charge that the gateway knows, and how much of it was refunded.
struct known_charge
{
    receipt charge;
    std::int64_t refunded{};
};

/// The call did nothing: the gateway was not reached, or refused the request. An earlier call is another question.
struct surely_not_done : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The call may have done what it was to do, or may still do it: no answer in time, no answer at all, an error of the
/// gateway's, or the same request in progress. A timeout is not a no.
struct perhaps_done : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

struct gateway_address
{
    std::string host;
    std::string port;
};

/// "HOST:PORT". Throws std::invalid_argument.
gateway_address parse_gateway_address(std::string_view text);

/// Threads: any. Blocks, no longer than its limits and the system's look-up of the name; holds nothing between calls.
class gateway_client
{
public:
    struct limits
    {
        std::chrono::milliseconds connect{1'000};
        std::chrono::milliseconds whole_call{10'000};
    };

    explicit gateway_client(gateway_address at) : gateway_client{std::move(at), limits{}} {}
    gateway_client(gateway_address at, limits how_long) : at_{std::move(at)}, limits_{how_long} {}

    /// Charges `cents` euro cents. The same `key` with the same rest is the same charge, however often it is called, if
    /// the gateway knows keys. `reference`: to find it by. Throws surely_not_done, perhaps_done.
    receipt charge(std::string const& key, std::string const& reference, std::int64_t cents) const;

    /// Gives all of a charge back, likewise.
    receipt refund(std::string const& key, std::string const& charge) const;

    /// What was charged under that reference: nothing means that nothing was. Throws perhaps_done where the gateway
    /// can't say: it did not answer, does not look up, or has a charge or a refund in progress.
    std::vector<known_charge> charges_of(std::string const& reference) const;

private:
    gateway_address at_;
    limits limits_;
};

}  // namespace order_saga
