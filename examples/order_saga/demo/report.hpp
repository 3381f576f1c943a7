// The outcome, for people and, with --json, for programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "rig/verdict.hpp"

namespace order_demo {

/// What was done to the shop, in addition to the orders.
struct disturbances
{
    int sent_twice{};
    int answered_in_flight{};
    int asked_again{};
    int captured{};
    int replayed{};
    int kills{};
};

struct run_summary
{
    std::uint64_t seed{};
    int orders{};
    std::chrono::milliseconds length{};
    std::optional<std::chrono::milliseconds> orders_took;  // from the first until all had ended, if they did
    disturbances disturbed;
    verdict outcome;
};

void print_report(run_summary const& run);

/// Throws if the file cannot be written.
void write_json(run_summary const& run, std::filesystem::path const& file);

}  // namespace order_demo
