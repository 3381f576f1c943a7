// What a step knows of the saga it runs for, and the transaction it runs in.
#pragma once

#include <skald/transaction_context.hpp>

#include <string>

namespace skald {

/// Lifetime, threads, transaction: as for transaction_context.
class step_context : public transaction_context
{
public:
    /// Created by Skald.
    step_context(detail::unit_of_work& unit, std::string scope, std::string saga_key, std::string derived_key,
                 int attempt, trace_context trace = {})
        : transaction_context{unit, std::move(scope), std::move(trace)}, saga_key_{std::move(saga_key)},
          derived_key_{std::move(derived_key)}, attempt_{attempt}
    {}

    /// `key:step`, or `key:step.compensate`: the same for every attempt, redelivery and replay of this step. Pass it to
    /// any other system that must do its part only once, such as a payment gateway.
    std::string const& key() const { return derived_key_; }

    /// The saga's key within scope().
    std::string const& saga_key() const { return saga_key_; }

    /// The number of this attempt, from 1.
    int attempt() const { return attempt_; }

private:
    std::string saga_key_;
    std::string derived_key_;
    int attempt_;
};

}  // namespace skald
