// What happens to Redis and to the service's processes while clients ask.
#pragma once

#include "redis_nodes.hpp"

#include "rig/process.hpp"
#include "support/database.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace skald::test {

/// Threads: one, that of the processes.
class storm
{
public:
    storm(redis_nodes& redis, std::vector<std::unique_ptr<rig::process>>& shops, database const& db, std::uint64_t seed)
        : redis_{redis}, shops_{shops}, db_{db}, random_{seed}
    {}

    /// One fault, whatever is due, and a moment without any.
    void strike();

    /// How often each happened.
    std::map<std::string, int> const& counts() const { return counts_; }
    long long keys_lost() const { return keys_lost_; }

private:
    void flush();
    void forget_scripts();
    void stand_still();
    void lose_all();
    void fail_over();
    void stop_holder();
    void kill_holder();
    void damage();
    void evict();
    void jump_clock();
    void begin_epoch();

    redis_nodes& redis_;
    std::vector<std::unique_ptr<rig::process>>& shops_;
    database const& db_;
    std::mt19937_64 random_;
    int strikes_{};
    std::map<std::string, int> counts_;
    long long keys_lost_{};
};

}  // namespace skald::test
