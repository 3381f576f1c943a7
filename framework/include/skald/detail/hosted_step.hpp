// A user's step without its types, as the runtime sees it.
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/data.hpp>
#include <skald/retry.hpp>
#include <skald/step.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace skald::detail {

/// One delivery's data in the hands of the step: read from the body before, written back after.
class step_run
{
public:
    virtual ~step_run() = default;
    virtual outcome execute(step_context& ctx) = 0;
    virtual void compensate(step_context& ctx) = 0;
    virtual std::string data() const = 0;
};

class hosted_step
{
public:
    virtual ~hosted_step() = default;
    /// Throws data_error where the body does not fit.
    virtual std::unique_ptr<step_run> read(std::string_view body) const = 0;
};

template <class Data, class Step>
class typed_run final : public step_run
{
public:
    typed_run(Step const& step, Data data) : step_{step}, data_{std::move(data)} {}

    outcome execute(step_context& ctx) override { return base().execute(ctx, data_); }

    void compensate(step_context& ctx) override
    {
        if constexpr (std::is_base_of_v<compensatable_step<Data>, Step>) base().compensate(ctx, data_);
    }

    std::string data() const override { return write_data(data_); }

private:
    // Through the base, so that a step may keep its overrides private.
    auto const& base() const
    {
        if constexpr (std::is_base_of_v<compensatable_step<Data>, Step>)
            return static_cast<compensatable_step<Data> const&>(step_);
        else if constexpr (std::is_base_of_v<pivot_step<Data>, Step>)
            return static_cast<pivot_step<Data> const&>(step_);
        else
            return static_cast<retriable_step<Data> const&>(step_);
    }

    Step const& step_;
    Data data_;
};

template <class Data, class Step>
class typed_step final : public hosted_step
{
public:
    explicit typed_step(Step step) : step_{std::move(step)} {}

    std::unique_ptr<step_run> read(std::string_view body) const override
    {
        return std::make_unique<typed_run<Data, Step>>(step_, read_data<Data>(body));
    }

private:
    Step step_;
};

}  // namespace skald::detail
