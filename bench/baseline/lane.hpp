// A thread with its own broker connection and database connection: takes what has arrived, up to a batch, and processes
// it in one transaction.
#pragma once

#include "broker.hpp"
#include "database.hpp"
#include "relay.hpp"
#include "work.hpp"

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace bench_baseline {

struct baseline_options
{
    std::string database_url, broker_url;
    int lanes{4};
    int batch_max{32};
    int prefetch{64};  // of each lane
    bool each{};       // one business statement for each delivery, a round trip each
};

struct saga_state
{
    std::string state, reason;
};
/// By scope and key.
using saga_states = std::map<std::pair<std::string, std::string>, saga_state>;

/// Threads: one. `out` must outlive it.
class lane
{
public:
    lane(baseline_options const& options, role here, relay& out);
    void run(std::stop_token const& stop);

private:
    std::vector<broker::delivery> take();
    void settle(std::vector<broker::delivery> const& batch);
    void settle_in_transaction(std::vector<step_work>& steps, std::vector<message const*> const& progress);
    void claim(std::vector<step_work>& steps);
    void check_what_was_met(std::vector<step_work> const& steps);
    void add_records(std::vector<step_work> const& steps, saga_states& advanced);
    void add_progress(std::vector<message const*> const& progress, saga_states& advanced);
    void add_advances(saga_states const& advanced);
    void add_enqueue(std::vector<message> const& messages);

    baseline_options options_;
    role here_;
    relay& out_;
    broker broker_;
    std::optional<database> database_;
};

}  // namespace bench_baseline
