// Moves messages to the broker: from memory those that a lane has just committed, and from the table whatever is due.
#pragma once

#include "broker.hpp"
#include "database.hpp"
#include "message.hpp"
#include "work.hpp"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

namespace bench_baseline {

struct outgoing
{
    std::int64_t row{};
    message content;
};

/// Threads: hand_over() from any; run() on one.
class relay
{
public:
    relay(std::string const& database_url, std::string const& broker_url, role const& here);

    void hand_over(std::vector<outgoing> messages);

    /// Until it is told to stop and nothing that was handed over is left.
    void run(std::stop_token const& stop);

private:
    using clock = std::chrono::steady_clock;

    std::vector<outgoing> take_handed_over();
    bool is_idle() const { return unconfirmed_.empty() && confirmed_.empty(); }
    void publish(std::vector<outgoing> messages);
    void take_confirms(std::chrono::microseconds wait);
    void delete_confirmed(bool even_a_few);
    void look_for_due();

    database database_;
    broker broker_;

    std::mutex mutex_;
    std::condition_variable handed_over_;
    std::vector<outgoing> queue_;

    std::uint64_t published_{};
    std::map<std::uint64_t, std::int64_t> unconfirmed_;  // publishing order -> row
    std::vector<std::int64_t> confirmed_, being_deleted_;
    std::unordered_set<std::int64_t> looked_up_;  // rows from the table that are not deleted yet
    clock::time_point next_look_{}, next_sweep_{};
    std::string seen_at_;
    std::int64_t seen_id_{};
};

}  // namespace bench_baseline
