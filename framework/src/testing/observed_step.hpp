// A user's step in the kit: counted, made to reject or fail where the test wants it, and observed while it runs.
#pragma once

#include "testing/fault_plan.hpp"

#include <skald/detail/external_work.hpp>
#include <skald/detail/hosted_step.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace skald::testing::inner {

/// What can be seen from outside while a user's code runs.
class step_observer
{
public:
    virtual ~step_observer() = default;

    /// Around code that runs in a transaction.
    virtual void before(std::string const& step) = 0;
    virtual void after(std::string const& step, step_context& ctx) = 0;

    /// Around a call and a look, which have none. `key`: call_context::key().
    virtual void before_call() = 0;
    virtual void after_call(std::string const& key) = 0;
    virtual void after_look(std::string const& step, std::string const& key,
                            skald::detail::look_result::answer said) = 0;
};

/// What steps must do, and what they did. Steps are named like their records, "charge-payment.compensate"; what one
/// does after its first transaction has a name of its own: "charge-payment.call", ".look", ".settle", ".arrived",
/// ".timed_out", ".abandon".
struct script
{
    std::map<std::string, std::string> rejections;  // with the reason
    std::map<std::string, int> faults;              // how many attempts throw
    std::map<std::string, int> refusals;            // how many calls do not reach the other system
    std::map<std::string, int> faulted;             // how many have, by name and derived key; of looks and ends
    std::map<std::string, int> runs;
    std::map<std::pair<std::string, std::string>, int>
        applied;                                  // transactions committed after the step's code ran, by derived key
    std::pair<std::string, std::string> pending;  // the scope and the derived key of a step that ran; none: empty
    std::map<std::string, std::string> left;      // what they left in their sessions, and what to do instead
    step_observer* observer{};                    // null: nobody looks

    void committed()
    {
        if (!pending.second.empty()) ++applied[pending];
        pending = {};
    }

    void clear() { *this = {}; }
};

class observed_work;

class observed_step final : public skald::detail::hosted_step
{
public:
    observed_step(std::string name, std::shared_ptr<skald::detail::hosted_step const> step, script& rules,
                  fault_plan& at);
    ~observed_step() override;
    observed_step(observed_step const&) = delete;
    observed_step& operator=(observed_step const&) = delete;

    std::unique_ptr<skald::detail::step_run> read(std::string_view body) const override;

    // The kit processes each delivery on its own.
    bool does_batches() const override { return false; }
    batch_outcome execute_batch(std::span<skald::detail::member_run const>) const override
    {
        return batch_outcome::one_by_one;
    }

    skald::detail::external_work const* external(bool is_forward) const override;

private:
    std::string name_;
    std::shared_ptr<skald::detail::hosted_step const> step_;
    script& rules_;
    fault_plan& fault_plan_;
    std::unique_ptr<observed_work> work_, undo_work_;  // null if it has none
};

}  // namespace skald::testing::inner
