// prove_exactly_once(): runs every schedule and compares what it leaves behind with what its way leaves undisturbed.
#pragma once

#include "testing/final_state.hpp"
#include "testing/observations.hpp"
#include "testing/restoration.hpp"
#include "testing/schedule.hpp"
#include "testing/simulation.hpp"
#include "testing/test_run.hpp"

#include <skald/testing/proof.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace skald::testing {

/// Threads: one. For one proof.
class prover
{
public:
    prover(inner::simulation& w, inner::scenario what, proof_options options);

    proof prove();

private:
    /// A way, and the result of its undisturbed runs.
    struct known_way
    {
        inner::way along;
        inner::final_state left;
        std::vector<inner::disturbance> places;
    };

    std::vector<inner::way> ways() const;
    void tell_progress();
    bool explore_all();
    bool keeps_all_members();
    void leave_repeated_places();
    bool explore(inner::way const& along);
    bool is_like(inner::way const& along, inner::final_state const& left);
    known_way const* known(std::string const& name) const;
    bool run_systematically();
    bool run_samples();
    bool run_only();
    bool passes(known_way const& along, std::vector<inner::disturbance> const& disturbances, std::string const& kind);
    std::string differs(known_way const& along, inner::run_result const& result) const;
    void blame(known_way const& along, inner::schedule const& shortest);
    std::string suspects(std::string const& difference) const;
    void fail(std::string failure, std::string schedule, std::string difference, std::string cause);
    bool restores(inner::run_result const& result, std::string const& schedule);
    bool leaves_session(inner::run_result const& result, std::string const& schedule);
    bool stays_inside();
    std::string wrong_end(inner::way const& along, inner::run_result const& result);
    std::optional<inner::schedule> find(std::string const& name, known_way const*& along) const;

    inner::simulation& simulation_;
    inner::scenario what_;
    proof_options options_;
    inner::observations observations_;
    std::optional<inner::restoration> restoration_;
    std::string outside_in_;  // the first way in which a step was seen to leave its transaction; empty: none
    std::vector<known_way> known_;
    std::size_t planned_{};  // how many schedules there are, once they are known
    std::chrono::steady_clock::time_point began_{std::chrono::steady_clock::now()}, told_{began_};
    proof proof_;
};

}  // namespace skald::testing
