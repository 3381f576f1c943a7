// What can be observed of a step from outside its transaction while it runs: whatever it does there, a ROLLBACK can't
// undo. And of its calls, which have none: whether look() says what call() did.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <map>
#include <string>
#include <vector>

namespace skald::testing::inner {

struct section;

/// Collects over several runs. Threads: one.
class observations final : private step_observer
{
public:
    /// Observes every step from now on, in the simulation's current run. Both must outlive that.
    void watch(simulation& w, std::vector<effect> const& effects);

    /// Collects what the databases recorded of a finished run: which steps ended a transaction, which faulted and how.
    void collect(simulation& w);

    /// What a step was seen to do in a service's database outside its transaction. Empty if nothing was.
    std::string outside_transaction() const;

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

    void before(std::string const& step) override;
    void after(std::string const& step, step_context& ctx) override;
    void before_call() override;
    void after_call(std::string const& key) override;
    void after_look(std::string const& step, std::string const& key, skald::detail::look_result::answer said) override;
    std::vector<section> now() const;
    void compare(std::string const& step, std::vector<section> const& now);

    simulation* simulation_{};
    std::vector<effect> const* effects_{};

    std::vector<section> before_;
    std::vector<seen_outside> outside_;
    std::vector<std::string> swallowed_;
    std::vector<std::string> ended_;
    std::map<std::string, std::string> done_by_calls_;  // in this run, by key; empty where a call has left nothing
    std::vector<std::string> wrong_looks_;              // as sentences
};

}  // namespace skald::testing::inner
