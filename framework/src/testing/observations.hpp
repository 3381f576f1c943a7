// What can be seen of a step while it runs, from beside its transaction: what it does there is
// what a ROLLBACK can't undo.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <string>
#include <vector>

namespace skald::testing::inner {

struct section;

/// Collects over runs. Threads: one.
class observations
{
public:
    /// Looks at every step from now on, in the simulation's present run.
    void watch(simulation& w, std::vector<effect> const& effects);

    /// What the databases have kept of a run that has ended: who ended a transaction, who faulted and how.
    void collect(simulation& w);

    /// A step that ran COMMIT, one that went on after an SQL error, one whose doings were there before COMMIT: whatever
    /// of this was seen, in sentences. Empty where nothing was.
    std::string cause() const;

private:
    struct seen_outside
    {
        std::string step;
        std::string difference;
        bool elsewhere;  // in none of the services' databases

        bool operator==(seen_outside const&) const = default;
    };

    void look(simulation& w, std::vector<effect> const& effects, std::string const& step, bool behind,
              step_context& ctx);
    void compare(std::string const& step, std::vector<section> const& now);

    std::vector<section> before_;
    std::vector<seen_outside> outside_;
    std::vector<std::string> swallowed_;
    std::vector<std::string> ended_;
};

/// Why two runs that nobody disturbed may differ, judging by what differs.
std::string why_runs_differ(std::string const& difference);

}  // namespace skald::testing::inner
