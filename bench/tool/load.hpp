// The sagas of a measurement: how they are started, and what must be in the databases afterwards.
#pragma once

#include "keys.hpp"
#include "world.hpp"

#include <cstdint>
#include <string>

namespace skald_bench {

struct load_shape
{
    bool ordered_keys{true};
    int again_percent{};     // of the sagas: each of their messages is delivered a second time
    int rejected_percent{};  // of the sagas
    bool hot{};              // all of one customer

    /// Of the sagas from 0 on, whether this one is among the per cent, which are spread evenly.
    static bool is_among(std::int64_t saga, int percent) { return (saga + 1) * percent / 100 > saga * percent / 100; }
};

/// Threads: one at a time.
class saga_starter
{
public:
    saga_starter(world& databases, load_shape shape, bool by_function);

    /// Starts so many in one transaction of the home's database.
    void start(int count);

    std::int64_t started() const { return started_; }
    std::int64_t rejected() const { return rejected_; }

    /// How many are under way now.
    std::int64_t under_way();

private:
    world& databases_;
    load_shape shape_;
    bool by_function_;
    key_maker keys_;
    std::int64_t started_{}, rejected_{};
    std::string oldest_;  // when the oldest of those under way was started
};

/// What sagas leave behind: in the services' own tables, and in Skald's.
struct shop_counts
{
    std::int64_t orders_kept{}, orders_cancelled{}, charges{}, charges_hot{}, shipments{};
    std::int64_t sagas_completed{}, sagas_compensated{}, parked{}, unsent{};
};

shop_counts count_shop(world& databases);

/// Throws std::runtime_error where something was lost, happened twice, or was given up on.
void check_shop(shop_counts const& before, shop_counts const& after, std::int64_t sagas, std::int64_t rejected,
                bool hot);

bool is_anything_unsent(world& databases);

}  // namespace skald_bench
