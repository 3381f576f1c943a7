#include "testing/observed_step.hpp"

#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

class observed_run final : public skald::detail::step_run
{
public:
    observed_run(std::string const& name, std::unique_ptr<skald::detail::step_run> run, script& rules, fault_plan& at)
        : name_{name}, run_{std::move(run)}, rules_{rules}, fault_plan_{at}
    {}

    outcome execute(step_context& ctx) override
    {
        before(name_, ctx);
        auto said = run_->execute(ctx);
        behind(name_, ctx);
        auto const no = rules_.rejections.find(name_);
        if (no != rules_.rejections.end()) return reject(no->second);
        if (said.is_done()) rules_.pending = ctx.key();
        return said;
    }

    void compensate(step_context& ctx) override
    {
        auto const name = name_ + ".compensate";
        before(name, ctx);
        run_->compensate(ctx);
        behind(name, ctx);
        rules_.pending = ctx.key();
    }

    std::string data() override { return run_->data(); }
    void const* object() const override { return run_->object(); }

private:
    void before(std::string const& name, step_context& ctx)
    {
        ++rules_.runs[name];
        rules_.pending.clear();
        if (rules_.observe) rules_.observe(name, false, ctx);
    }

    void behind(std::string const& name, step_context& ctx)
    {
        if (rules_.observe) rules_.observe(name, true, ctx);
        fault_plan_.reach(crash_point::after_step);
        auto const fault = rules_.faults.find(name);
        if (fault != rules_.faults.end() && ctx.attempt() <= fault->second)
            throw std::runtime_error{"a fault that the test asked for"};
    }

    std::string const& name_;
    std::unique_ptr<skald::detail::step_run> run_;
    script& rules_;
    fault_plan& fault_plan_;
};

}  // namespace

std::unique_ptr<skald::detail::step_run> observed_step::read(std::string_view body) const
{
    return std::make_unique<observed_run>(name_, step_->read(body), rules_, fault_plan_);
}

}  // namespace skald::testing::inner
