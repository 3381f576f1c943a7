// One run of a schedule, from the start of its saga until nothing is left to do.
#pragma once

#include "testing/final_state.hpp"
#include "testing/observations.hpp"
#include "testing/schedule.hpp"
#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <map>
#include <string>
#include <vector>

namespace skald::testing::inner {

struct run_result
{
    final_state left;
    std::vector<delivered> deliveries;  // each name once, in the order of first arrival
    std::vector<visit> visits;
    bool all_met{true};                                  // all planned disturbances took place
    std::string refused;                                 // why the way was impossible: a cancel that came too late
    std::map<std::string, std::string> left_in_session;  // by step; if sessions were inspected
    std::string not_restored;                            // what is not as before the saga, outside the databases
    std::string problem;                                 // why it did not reach its end
};

/// Throws std::invalid_argument for the name of a service or of a step that is not there.
void require_named(simulation const& w, proof_options const& options);

/// Threads: one. For one run.
class test_run
{
public:
    test_run(simulation& w, scenario const& what, proof_options const& options, schedule const& plan);

    /// `watcher`: if given, observes every step.
    run_result run(observations* watcher = nullptr);

private:
    void play();
    bool go_on();
    bool gives_signal();
    bool is_started(std::string const& step);
    bool is_time_to_cancel();
    void cancel();
    void deliver_first();
    void record(held const& next);
    bool take(std::string const& delivery, manner how);

    simulation& simulation_;
    scenario const& what_;
    proof_options const& options_;
    schedule const& plan_;
    std::vector<disturbance> left_;  // those with a manner that have not occurred yet
    std::vector<core::message> late_;
    bool cancelled_{};
    std::vector<std::string> signalled_;
    run_result result_;
};

}  // namespace skald::testing::inner
