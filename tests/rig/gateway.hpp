// The payment provider of tools/gateway beside the services: it misbehaves now and then, and is started again when it
// has killed itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "rig/order_plan.hpp"
#include "rig/process.hpp"

namespace skald::rig {

/// Threads: one, as with `process`. Throws std::runtime_error where it does not answer.
class gateway
{
public:
    /// Its ledger and its log go into `folder`.
    gateway(std::filesystem::path const& program, std::filesystem::path const& folder, std::uint64_t seed);

    std::string address() const;  // HOST:PORT, from the start on

    void start();
    void look_after();  // starts it again

    /// Now and then another fault, for some of its requests: to be called often.
    void misbehave();
    void behave();

    /// All that it has charged, as it tells: an array.
    nlohmann::json charges();

private:
    void plan(nlohmann::json const& faults);

    std::uint16_t port_;
    random_source random_;
    std::chrono::steady_clock::time_point next_fault_{};
    process process_;
};

}  // namespace skald::rig
