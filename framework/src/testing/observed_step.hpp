// A user's step in the kit: counted, made to say no or to break where the test wants that, and looked at while it runs.
#pragma once

#include "testing/fault_plan.hpp"

#include <skald/detail/hosted_step.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace skald::testing::inner {

/// What steps are to do, and what they did. Steps are named as records are: "charge-payment.compensate".
struct script
{
    std::map<std::string, std::string> rejections;  // and why
    std::map<std::string, int> faults;              // how many attempts throw
    std::map<std::string, int> runs;
    std::map<std::string, int> applied;       // transactions that were committed behind the step's code, by derived key
    std::string pending;                      // the derived key of what has run and is not committed
    std::map<std::string, std::string> left;  // in their sessions, and what to do instead

    /// Called before and behind a step's code, within its transaction: what can be seen from outside meanwhile?
    std::function<void(std::string const& step, bool behind, step_context& ctx)> look;

    void committed()
    {
        if (!pending.empty()) ++applied[pending];
        pending.clear();
    }

    void forget()
    {
        rejections.clear();
        faults.clear();
        runs.clear();
        applied.clear();
        pending.clear();
        left.clear();
        look = {};
    }
};

class observed_step final : public skald::detail::hosted_step
{
public:
    observed_step(std::string name, std::shared_ptr<skald::detail::hosted_step> step, script& rules, fault_plan& at)
        : name_{std::move(name)}, step_{std::move(step)}, rules_{rules}, fault_plan_{at}
    {}

    std::unique_ptr<skald::detail::step_run> read(std::string_view body) const override;

    // The kit settles each delivery alone.
    bool does_batches() const override { return false; }
    batch_outcome execute_batch(std::span<skald::detail::member_run const>) const override
    {
        return batch_outcome::one_by_one;
    }

private:
    std::string name_;
    std::shared_ptr<skald::detail::hosted_step> step_;
    script& rules_;
    fault_plan& fault_plan_;
};

}  // namespace skald::testing::inner
