// The sagas of a measurement: how they are started, and what must be in the databases afterwards.
#pragma once

#include "bench_databases.hpp"
#include "keys.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace skald_bench {

/// What all sagas of a kind have in common. The first step of each kind is `create-order`.
struct saga_kind
{
    std::string_view definition, itinerary, home;
};

inline constexpr saga_kind bench_order{"bench-order", itinerary, "bench-orders"};
inline constexpr saga_kind shop_order{
    "place-order",
    "forward 1/4 create-order@orders=compensatable charge-payment@payments=compensatable "
    "arrange-shipping@shipping=pivot confirm-order@orders=retriable",
    "orders"};

/// A saga for each member of the array `data`, whose `id` is its key, in one transaction of the home's database.
void start_sagas(pqxx::connection& home, saga_kind const& kind, nlohmann::json const& data, bool by_function);

/// Threads: one at a time.
class saga_starter
{
public:
    saga_starter(bench_databases& databases, bool ordered_keys, bool by_function);

    /// Starts that many at once.
    void start(int count);

    std::int64_t started() const { return started_; }

    /// How many are under way now.
    std::int64_t under_way();

private:
    bench_databases& databases_;
    bool by_function_;
    key_maker keys_;
    std::int64_t started_{};
    std::string oldest_;  // when the oldest of those under way was started
};

/// What sagas leave behind: in the services' own tables, and in Skald's.
struct shop_counts
{
    std::int64_t orders{}, charges{}, shipments{};
    std::int64_t sagas_completed{}, parked{}, unsent{};
};

shop_counts count_shop(bench_databases& databases);

/// Throws std::runtime_error if something was lost, happened twice, or was parked.
void check_shop(shop_counts const& before, shop_counts const& after, std::int64_t sagas);

bool is_anything_unsent(bench_databases& databases);

}  // namespace skald_bench
