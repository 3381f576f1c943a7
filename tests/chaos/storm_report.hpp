// The outcome of a storm: one table for people, and a JSON file.
#pragma once

#include "faults.hpp"
#include "rig/verdict.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace order_storm {

struct storm_summary
{
    std::uint64_t seed{};
    std::string commit;
    std::string postgres_version;
    std::string broker;  // and its version, or the transport
    std::chrono::milliseconds stormed{};
    std::chrono::milliseconds recovered{};  // from the end of the last fault until every saga had ended
    std::array<int, fault_kind_count> struck{};
    int orders{};
    int orders_elsewhere{};  // in addition, at the other home
    int killed_by_poison{};  // processes
    int replayed{};          // deliveries that were parked for killing processes, by an operator
    int sent_twice{};
    int answered_in_flight{};
    int asked_again{};
    std::int64_t deliveries{};  // that were processed, by the services' logs
    std::int64_t duplicates{};  // of these: absorbed by the guard
    skald::rig::verdict outcome;
};

void print_report(storm_summary const& run);

/// Throws if the file cannot be written.
void write_json(storm_summary const& run, std::filesystem::path const& file);

}  // namespace order_storm
