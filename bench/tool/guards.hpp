// What is in front of the guard for requests (SKALD_GUARD), compared under one load: two processes of a service that
// share a database and a redis-server of the measurement's own.
#pragma once

#include "percentiles.hpp"
#include "phase.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace skald_bench {

struct guard_figures
{
    std::string way;
    int callers{};     // that share a key
    int duplicates{};  // per cent of the requests repeat a key
    double per_second{};
    std::int64_t answers{};                           // a request that hears 409 or 503 is sent again until it has one
    std::int64_t told_to_wait{};                      // 409
    std::int64_t refused{};                           // 503
    percentiles first_ms, replay_ms;                  // from when a request was first sent
    double transactions{};                            // of PostgreSQL, for each answer
    double services_us{}, postgres_us{}, redis_us{};  // of processor time, for each answer
    std::int64_t twice{};                             // effects that there are more than once
    std::int64_t wrong{};                             // responses that are not their keys'
};

/// Each way with each number of callers a key and each share of duplicates. The services keep no responses in memory:
/// it would answer most of what Redis is measured for. With one caller a key, the other process gets the duplicate.
void run_guards(bench const& b, bench_databases& databases, std::function<void(guard_figures const&)> const& each);

}  // namespace skald_bench
