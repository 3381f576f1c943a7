// A user's step in the kit: counted, made to reject or fail where the test wants it, and observed while it runs.
#pragma once

#include "testing/fault_plan.hpp"

#include <skald/detail/hosted_step.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace skald::testing::inner {

/// What steps must do, and what they did. Steps are named like their records: "charge-payment.compensate".
struct script
{
    std::map<std::string, std::string> rejections;  // with the reason
    std::map<std::string, int> faults;              // how many attempts throw
    std::map<std::string, int> runs;
    std::map<std::string, int> applied;       // transactions committed after the step's code ran, by derived key
    std::string pending;                      // the derived key of a step that ran but is not committed
    std::map<std::string, std::string> left;  // what they left in their sessions, and what to do instead

    /// Called before and after a step's code, within its transaction: what can be seen from outside at that moment?
    std::function<void(std::string const& step, bool behind, step_context& ctx)> observe;

    void committed()
    {
        if (!pending.empty()) ++applied[pending];
        pending.clear();
    }

    void clear()
    {
        rejections.clear();
        faults.clear();
        runs.clear();
        applied.clear();
        pending.clear();
        left.clear();
        observe = {};
    }
};

class observed_step final : public skald::detail::hosted_step
{
public:
    observed_step(std::string name, std::shared_ptr<skald::detail::hosted_step const> step, script& rules,
                  fault_plan& at)
        : name_{std::move(name)}, step_{std::move(step)}, rules_{rules}, fault_plan_{at}
    {}

    std::unique_ptr<skald::detail::step_run> read(std::string_view body) const override;

    // The kit processes each delivery on its own.
    bool does_batches() const override { return false; }
    batch_outcome execute_batch(std::span<skald::detail::member_run const>) const override
    {
        return batch_outcome::one_by_one;
    }

private:
    std::string name_;
    std::shared_ptr<skald::detail::hosted_step const> step_;
    script& rules_;
    fault_plan& fault_plan_;
};

}  // namespace skald::testing::inner
