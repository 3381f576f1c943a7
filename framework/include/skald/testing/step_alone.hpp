// One step alone: its code runs in a transaction of the service's database, which is rolled back at the end.
//
//     auto alone = shop.alone("payments");
//     order o{"o-1", "ann", 100};
//     CHECK(alone.execute(charge_payment{}, o).is_done());
//     CHECK(alone.ask("SELECT cents FROM wallet") == skald::testing::rows{"900"});
//     alone.compensate(charge_payment{}, o);
//     CHECK(alone.ask("SELECT cents FROM wallet") == skald::testing::rows{"1000"});
//
// The functions of an external step and of one that waits are called one by one: prepare(), call(), look(), settle(),
// abandon(); begin(), arrived(), timed_out().
#pragma once

#include <skald/detail/hosted_external_step.hpp>
#include <skald/outcome.hpp>
#include <skald/step.hpp>
#include <skald/step_context.hpp>
#include <skald/testing/views.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace skald::testing {

/// What a step sees of its saga: the keys and the attempt.
struct step_circumstances
{
    std::string key{"alone"};  // step_context::saga_key()
    std::string step{"step"};  // the name in step_context::key()
    std::string scope{};       // of the saga
    int attempt{1};            // from 1
};

/// What harness::alone() returns.
///
/// Lifetime:    no longer than the harness that made it. Its end rolls everything back.
/// Transaction: one for everything that it runs. What a step that is not done has written, published and changed in
///              its data is undone, as in production. Unusable after a step has thrown.
/// Threads:     one.
class step_alone
{
public:
    ~step_alone();
    step_alone(step_alone&&) noexcept;  // a moved-from object is unusable
    step_alone& operator=(step_alone&&) = delete;

    /// Runs it once, applies its changes to `data` if it is done, and returns its outcome. What it throws passes
    /// through.
    /// Throws std::logic_error if the step has ended the transaction itself, or has swallowed an SQL error: it could
    /// not be committed.
    template <class Step, class Data>
    outcome execute(Step const& step, Data& data, step_circumstances const& around = {})
    {
        auto ctx = context(around, false);
        return run(*ctx, data, [&]() -> outcome { return base<Data>(step).execute(*ctx, data); });
    }

    /// The same for its compensation.
    template <class Step, class Data>
    void compensate(Step const& step, Data& data, step_circumstances const& around = {})
    {
        auto ctx = context(around, true);
        if constexpr (std::is_base_of_v<compensation<Data>, Step>)
            static_cast<compensation<Data> const&>(step).compensate(*ctx, data);
        else static_cast<compensatable_step<Data> const&>(step).compensate(*ctx, data);
        finish(*ctx, true);
    }

    // The functions of an external step, or of an external_compensation, which is always done.

    /// Its first transaction.
    template <class Step, class Data>
    outcome prepare(Step const& step, Data& data, step_circumstances const& around = {})
    {
        return part<Data>(step, data, around, [&](auto const& s, auto& ctx) { return s.prepare(ctx, data); });
    }

    /// Its call, with call_context::attempt() as in `around`. What it throws passes through; heartbeat() does nothing.
    template <class Step, class Data>
    auto call(Step const& step, Data const& data, step_circumstances const& around = {})
    {
        return detail::interface_of<Data>(step).call(*call_context_for(around, is_back<Step, Data>), data);
    }

    /// What it says of an earlier call.
    template <class Step, class Data>
    auto look(Step const& step, Data const& data, step_circumstances const& around = {})
    {
        return detail::interface_of<Data>(step).look(*call_context_for(around, is_back<Step, Data>), data);
    }

    /// Its second transaction.
    template <class Step, class Data, class Result>
    outcome settle(Step const& step, Data& data, Result const& result, step_circumstances const& around = {})
    {
        return part<Data>(step, data, around, [&](auto const& s, auto& ctx) { return s.settle(ctx, data, result); });
    }

    /// Its end without a result; also of a wait_step.
    template <class Step, class Data>
    void abandon(Step const& step, Data& data, step_circumstances const& around = {})
    {
        part<Data>(step, data, around, [&](auto const& s, auto& ctx) { s.abandon(ctx, data); });
    }

    // The functions of a wait_step.

    /// Likewise, of a step that waits.
    template <class Step, class Data>
    outcome begin(Step const& step, Data& data, step_circumstances const& around = {})
    {
        return part<Data>(step, data, around, [&](auto const& s, auto& ctx) { return s.begin(ctx, data); });
    }

    /// Likewise, of a step that waits.
    template <class Step, class Data, class Signal>
    outcome arrived(Step const& step, Data& data, Signal const& signal, step_circumstances const& around = {})
    {
        return part<Data>(step, data, around, [&](auto const& s, auto& ctx) { return s.arrived(ctx, data, signal); });
    }

    /// Likewise, of a step that waits.
    template <class Step, class Data>
    outcome timed_out(Step const& step, Data& data, step_circumstances const& around = {})
    {
        return part<Data>(step, data, around, [&](auto const& s, auto& ctx) { return s.timed_out(ctx, data); });
    }

    /// A query in the same transaction: it sees what the step has written.
    rows ask(std::string const& sql);

    /// What the steps would have sent with ctx.publish().
    std::vector<message_view> const& published() const;

private:
    friend class harness;
    struct implementation;
    explicit step_alone(std::unique_ptr<implementation> made);

    // Through the base, so that a step may keep its overrides private.
    template <class Data, class Step>
    static auto const& base(Step const& step)
    {
        if constexpr (std::is_base_of_v<compensatable_step<Data>, Step>)
            return static_cast<compensatable_step<Data> const&>(step);
        else if constexpr (std::is_base_of_v<pivot_step<Data>, Step>) return static_cast<pivot_step<Data> const&>(step);
        else return static_cast<retriable_step<Data> const&>(step);
    }

    template <class Step, class Data>
    static constexpr bool is_back = detail::is_external_compensation<Data, Step>;

    template <class Data, class Step, class Code>
    outcome part(Step const& step, Data& data, step_circumstances const& around, Code code)
    {
        auto ctx = context(around, is_back<Step, Data>);
        return run(*ctx, data,
                   [&] { return detail::ended([&] { return code(detail::interface_of<Data>(step), *ctx); }); });
    }

    template <class Data, class Code>
    outcome run(step_context& ctx, Data& data, Code code)
    {
        auto before = data;
        outcome said = code();
        finish(ctx, said.is_done());
        if (!said.is_done()) data = std::move(before);
        return said;
    }

    static std::unique_ptr<call_context> call_context_for(step_circumstances const& around, bool back);
    std::unique_ptr<step_context> context(step_circumstances const& around, bool back);
    void finish(step_context& ctx, bool is_done);
    void check_transaction();

    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald::testing
