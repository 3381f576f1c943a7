// Requests over HTTP in a closed loop: how much of PostgreSQL's throughput is left through the entry.
#pragma once

#include "fleet.hpp"
#include "percentiles.hpp"
#include "phase.hpp"

#include <cstdint>

namespace skald_bench {

enum class request_kind { fresh, replayed };

struct entry_figures
{
    implementation who{};
    request_kind kind{};
    int connections{};
    std::int64_t requests{};
    double per_second{};
    percentiles ms{};
};

/// POST /rows on that many connections, with a lane of the service for each. Each sends its next request as soon as the
/// last is answered: first with a new key each, then with keys that have been used. Throws if a response is not as it
/// should be, or a replay inserts a row.
std::vector<entry_figures> run_entry(bench const& b, bench_databases& databases);

/// The same rows on as many connections to PostgreSQL, in as many round trips, without HTTP.
entry_figures run_entry_baseline(bench const& b, bench_databases& databases);

}  // namespace skald_bench
