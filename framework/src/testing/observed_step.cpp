#include "testing/observed_step.hpp"

#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

/// What a run of a step's code is in the life of the step.
enum class part {
    whole,   // its only transaction
    first,   // the one that begins it
    settle,  // the one that ends it
    abandon  // the one that gives it up
};

std::runtime_error asked_for()
{
    return std::runtime_error{"a fault that the test asked for"};
}

/// By the direction in which it is run.
struct parts
{
    part forward, back;
};

class observed_run final : public skald::detail::step_run
{
public:
    observed_run(std::string name, parts of, std::unique_ptr<skald::detail::step_run> run, script& rules,
                 fault_plan& at)
        : name_{std::move(name)}, parts_{of}, run_{std::move(run)}, rules_{rules}, fault_plan_{at}
    {}

    outcome execute(step_context& ctx) override
    {
        before(name_);
        auto said = run_->execute(ctx);
        after(name_, parts_.forward, ctx);
        auto const no = rules_.rejections.find(name_);
        if (no != rules_.rejections.end() && parts_.forward != part::abandon) return reject(no->second);
        if (said.is_done()) ran(parts_.forward, ctx);
        return said;
    }

    void compensate(step_context& ctx) override
    {
        auto const name = name_ + ".compensate";
        before(name);
        run_->compensate(ctx);
        after(name, parts_.back, ctx);
        ran(parts_.back, ctx);
    }

    std::string data() override { return run_->data(); }
    void const* object() const override { return run_->object(); }

private:
    void before(std::string const& name)
    {
        ++rules_.runs[name];
        rules_.pending = {};
        if (rules_.observer != nullptr) rules_.observer->before(name);
    }

    void after(std::string const& name, part of, step_context& ctx)
    {
        if (rules_.observer != nullptr) rules_.observer->after(name, ctx);
        fault_plan_.reach(crash_point::after_step);
        auto const fault = rules_.faults.find(name);
        if (fault == rules_.faults.end()) return;
        // To record an end again is no attempt of the step.
        bool const is_attempt = of == part::whole || of == part::first;
        int const number = is_attempt ? ctx.attempt() : ++rules_.faulted[name + ' ' + ctx.key()];
        if (number <= fault->second) throw asked_for();
    }

    // What begins or gives up a step does not complete it.
    void ran(part of, step_context& ctx)
    {
        if (of == part::whole || of == part::settle) rules_.pending = {ctx.scope(), ctx.key()};
    }

    std::string name_;
    parts parts_;
    std::unique_ptr<skald::detail::step_run> run_;
    script& rules_;
    fault_plan& fault_plan_;
};

}  // namespace

class observed_work final : public skald::detail::external_work
{
public:
    observed_work(std::string name, external_work const& work, script& rules, fault_plan& at)
        : name_{std::move(name)}, work_{work}, rules_{rules}, fault_plan_{at}
    {}

    bool is_call() const override { return work_.is_call(); }
    bool takes_signal() const override { return work_.takes_signal(); }
    std::optional<std::string> why_no_signal(std::string_view json) const override { return work_.why_no_signal(json); }

    std::chrono::milliseconds due_in(std::string_view body, step_context const& ctx) const override
    {
        return work_.due_in(body, ctx);
    }

    std::string call(call_context& ctx, std::string_view body) const override
    {
        auto const name = name_ + ".call";
        fault_plan_.reach(crash_point::before_call);
        if (auto const no = rules_.refusals.find(name_); no != rules_.refusals.end() && ctx.attempt() <= no->second)
            throw did_not_happen_error{"the test says that the other system can't be reached"};
        ++rules_.runs[name];
        if (rules_.observer != nullptr) rules_.observer->before_call();
        auto result = work_.call(ctx, body);
        if (rules_.observer != nullptr) rules_.observer->after_call(ctx.key());
        fault_plan_.reach(crash_point::after_call);
        if (auto const fault = rules_.faults.find(name); fault != rules_.faults.end() && ctx.attempt() <= fault->second)
            throw asked_for();
        return result;
    }

    skald::detail::look_result look(call_context& ctx, std::string_view body) const override
    {
        auto const name = name_ + ".look";
        ++rules_.runs[name];
        if (rules_.observer != nullptr) rules_.observer->before_call();
        auto said = work_.look(ctx, body);
        if (rules_.observer != nullptr) rules_.observer->after_look(name_, ctx.key(), said.what);
        auto const fault = rules_.faults.find(name);
        if (fault != rules_.faults.end() && ++rules_.faulted[name + ' ' + ctx.key()] <= fault->second)
            throw asked_for();
        return said;
    }

    std::unique_ptr<skald::detail::step_run> settle(std::string_view body,
                                                    std::optional<std::string> const& answer) const override
    {
        auto const name = is_call() ? ".settle" : answer ? ".arrived" : ".timed_out";
        return observed(name, part::settle, work_.settle(body, answer));
    }

    std::unique_ptr<skald::detail::step_run> abandon(std::string_view body) const override
    {
        return observed(".abandon", part::abandon, work_.abandon(body));
    }

private:
    std::unique_ptr<skald::detail::step_run> observed(char const* what, part of,
                                                      std::unique_ptr<skald::detail::step_run> run) const
    {
        return std::make_unique<observed_run>(name_ + what, parts{of, of}, std::move(run), rules_, fault_plan_);
    }

    std::string name_;
    external_work const& work_;
    script& rules_;
    fault_plan& fault_plan_;
};

observed_step::observed_step(std::string name, std::shared_ptr<skald::detail::hosted_step const> step, script& rules,
                             fault_plan& at)
    : name_{std::move(name)}, step_{std::move(step)}, rules_{rules}, fault_plan_{at}
{
    auto const observed = [&](std::string of, skald::detail::external_work const* work) {
        return work == nullptr ? nullptr : std::make_unique<observed_work>(std::move(of), *work, rules_, fault_plan_);
    };
    work_ = observed(name_, step_->external(true));
    undo_work_ = observed(name_ + ".compensate", step_->external(false));
}

observed_step::~observed_step() = default;

skald::detail::external_work const* observed_step::external(bool is_forward) const
{
    return is_forward ? work_.get() : undo_work_.get();
}

std::unique_ptr<skald::detail::step_run> observed_step::read(std::string_view body) const
{
    parts const of{work_ ? part::first : part::whole, undo_work_ ? part::first : part::whole};
    return std::make_unique<observed_run>(name_, of, step_->read(body), rules_, fault_plan_);
}

}  // namespace skald::testing::inner
