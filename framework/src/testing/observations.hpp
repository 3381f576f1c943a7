// What can be observed of a step from outside its transaction while it runs: whatever it does there, a ROLLBACK can't
// undo.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <string>
#include <vector>

namespace skald::testing::inner {

struct section;

/// Collects over several runs. Threads: one.
class observations
{
public:
    /// Observes every step from now on, in the simulation's current run.
    void watch(simulation& w, std::vector<effect> const& effects);

    /// Collects what the databases recorded of a finished run: which steps ended a transaction, which faulted and how.
    void collect(simulation& w);

    /// Describes what was observed: a step that ran COMMIT, one that went on after an SQL error, one whose effects were
    /// visible before COMMIT. Empty if there was nothing.
    std::string cause() const;

private:
    struct seen_outside
    {
        std::string step;
        std::string difference;
        bool elsewhere;  // in none of the services' databases

        bool operator==(seen_outside const&) const = default;
    };

    void observe(simulation& w, std::vector<effect> const& effects, std::string const& step, bool behind,
                 step_context& ctx);
    void compare(std::string const& step, std::vector<section> const& now);

    std::vector<section> before_;
    std::vector<seen_outside> outside_;
    std::vector<std::string> swallowed_;
    std::vector<std::string> ended_;
};

/// Why two undisturbed runs may differ, judging by the difference.
std::string why_runs_differ(std::string const& difference);

}  // namespace skald::testing::inner
