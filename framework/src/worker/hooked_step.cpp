#include "worker/hooked_step.hpp"

#include <exception>
#include <utility>
#include <vector>

namespace skald::worker_detail {
namespace {

void begin(step_hooks const& hooks, step_call const& call, step_context& ctx)
{
    if (hooks.before) hooks.before(call, ctx);
}

void end(step_hooks const& hooks, step_call const& call, step_context& ctx, outcome const& ended)
{
    if (hooks.after) hooks.after(call, ctx, ended);
}

// For a catch block: the error that is being handled.
void fail(step_hooks const& hooks, step_call const& call, step_context const& ctx)
{
    if (!hooks.on_failure) return;
    try {
        throw;
    }
    catch (std::exception const& error) {
        hooks.on_failure(call, ctx, error.what());
    }
    catch (...) {
        hooks.on_failure(call, ctx, "an exception that is no std::exception");
    }
}

class hooked_run final : public detail::step_run
{
public:
    /// `executes`: what execute() is a call of.
    hooked_run(step_call const& executes, std::unique_ptr<detail::step_run> run, step_hooks const& hooks)
        : executes_{executes}, run_{std::move(run)}, hooks_{hooks}
    {}

    outcome execute(step_context& ctx) override
    {
        return with_hooks(executes_, ctx, [&] { return run_->execute(ctx); });
    }

    void compensate(step_context& ctx) override
    {
        with_hooks({executes_.definition, executes_.step, true}, ctx, [&] {
            run_->compensate(ctx);
            return outcome{done()};
        });
    }

    std::string data() override { return run_->data(); }
    void const* object() const override { return run_->object(); }

    /// Without hooks: execute_batch() calls them itself.
    detail::step_run& bare() { return *run_; }

private:
    template <class Code>
    outcome with_hooks(step_call const& call, step_context& ctx, Code code)
    try {
        begin(hooks_, call, ctx);
        auto ended = code();
        end(hooks_, call, ctx, ended);
        return ended;
    }
    catch (...) {
        fail(hooks_, call, ctx);
        throw;
    }

    step_call executes_;
    std::unique_ptr<detail::step_run> run_;
    step_hooks const& hooks_;
};

// The hooks are called around the second transaction too, and not around the call.
class hooked_work final : public detail::external_work
{
public:
    hooked_work(step_call const& of, detail::external_work const& work, step_hooks const& hooks)
        : of_{of}, work_{work}, hooks_{hooks}
    {}

    bool is_call() const override { return work_.is_call(); }
    bool takes_signal() const override { return work_.takes_signal(); }
    std::optional<std::string> why_no_signal(std::string_view json) const override { return work_.why_no_signal(json); }
    std::chrono::milliseconds due_in(std::string_view body, step_context const& ctx) const override
    {
        return work_.due_in(body, ctx);
    }
    std::string call(call_context& ctx, std::string_view body) const override { return work_.call(ctx, body); }
    detail::look_result look(call_context& ctx, std::string_view body) const override { return work_.look(ctx, body); }
    std::unique_ptr<detail::step_run> settle(std::string_view body,
                                             std::optional<std::string> const& answer) const override
    {
        return std::make_unique<hooked_run>(of_, work_.settle(body, answer), hooks_);
    }
    std::unique_ptr<detail::step_run> abandon(std::string_view body) const override
    {
        return std::make_unique<hooked_run>(of_, work_.abandon(body), hooks_);
    }

private:
    step_call of_;
    detail::external_work const& work_;
    step_hooks const& hooks_;
};

}  // namespace

hooked_step::~hooked_step() = default;

detail::external_work const* hooked_step::external(bool is_forward) const
{
    return is_forward ? forward_.get() : back_.get();
}

hooked_step::hooked_step(std::string definition, std::string name, std::unique_ptr<detail::hosted_step> step,
                         std::shared_ptr<step_hooks const> hooks)
    : definition_{std::move(definition)}, name_{std::move(name)}, step_{std::move(step)}, hooks_{std::move(hooks)}
{
    auto const with_hooks = [this](bool is_forward) {
        auto const* const work = step_->external(is_forward);
        return work == nullptr
                   ? nullptr
                   : std::make_unique<hooked_work>(step_call{definition_, name_, !is_forward}, *work, *hooks_);
    };
    forward_ = with_hooks(true);
    back_ = with_hooks(false);
}

std::unique_ptr<detail::step_run> hooked_step::read(std::string_view body) const
{
    return std::make_unique<hooked_run>(step_call{definition_, name_, false}, step_->read(body), *hooks_);
}

batch_outcome hooked_step::execute_batch(std::span<detail::member_run const> all) const
{
    step_call const call{definition_, name_, false};
    try {
        std::vector<detail::member_run> bare;
        for (auto const& one : all) {
            begin(*hooks_, call, one.ctx);
            bare.push_back({one.ctx, static_cast<hooked_run&>(one.run).bare(), one.no});
        }
        auto const ended = step_->execute_batch(bare);
        if (ended != batch_outcome::all_done) return ended;
        for (auto const& one : all) end(*hooks_, call, one.ctx, one.no ? outcome{*one.no} : outcome{done()});
        return ended;
    }
    catch (...) {
        for (auto const& one : all) fail(*hooks_, call, one.ctx);
        throw;
    }
}

}  // namespace skald::worker_detail
