// What was measured, for people and for programs.
#pragma once

#include "tool/percentiles.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sweep_bench {

using skald_bench::percentiles;

struct swept_sagas
{
    int sagas{};
    double seconds{};     // from the start of the load until none was left
    percentiles answers;  // of the orders that came meanwhile
    percentiles ends;
};

struct phase_figures
{
    std::string name;
    int orders{};
    percentiles answers;  // from when an order was due to its answer
    percentiles ends;     // from when it was accepted until its saga had completed
    std::optional<swept_sagas> swept;
};

struct bench_figures
{
    std::string commit;
    std::string postgres_version;
    unsigned cores{};
    double orders_per_second{};
    int seconds{};
    int old_sagas{};
    std::vector<phase_figures> phases;
};

void print_head(bench_figures const& bench);
void print_phase(phase_figures const& phase);

/// Throws if the file can't be written.
void write_json(bench_figures const& bench, std::filesystem::path const& file);

}  // namespace sweep_bench
