// A user's step without its types, as the runtime sees it.
#pragma once

#include <skald/batch.hpp>
#include <skald/definition.hpp>
#include <skald/detail/data.hpp>
#include <skald/step.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::detail {

class external_work;

/// One delivery's data while the step has it: read from the body before, written back after.
class step_run
{
public:
    virtual ~step_run() = default;
    virtual outcome execute(step_context& ctx) = 0;
    virtual void compensate(step_context& ctx) = 0;
    /// The received data with the step's changes; unknown members go on unchanged. Throws data_error.
    virtual std::string data() = 0;
    /// The object itself, of the type that the step was hosted with.
    virtual void const* object() const = 0;
};

/// One delivery of a batch, for a step that handles all of them at once.
struct member_run
{
    step_context& ctx;
    step_run& run;
    std::optional<reject_outcome>& no;
};

class hosted_step
{
public:
    virtual ~hosted_step() = default;
    /// Throws data_error if the body does not fit.
    virtual std::unique_ptr<step_run> read(std::string_view body) const = 0;

    /// Whether the step is a batch_step; and its execute_batch() on runs that read() created.
    virtual bool does_batches() const = 0;
    virtual batch_outcome execute_batch(std::span<member_run const> all) const = 0;

    /// What it does after its first transaction, in that direction, before it has ended; null: nothing. Lives as long
    /// as the step.
    virtual external_work const* external([[maybe_unused]] bool is_forward) const { return nullptr; }
};

template <class Data, class Step>
class typed_run final : public step_run
{
public:
    typed_run(Step const& step, std::string_view body) : step_{step}, data_(read_data<Data>(body, came_)) {}

    outcome execute(step_context& ctx) override { return base().execute(ctx, data_); }

    void compensate(step_context& ctx) override
    {
        if constexpr (std::is_base_of_v<compensatable_step<Data>, Step>) base().compensate(ctx, data_);
    }

    std::string data() override { return write_data(data_, came_); }
    void const* object() const override { return &data_; }

    Data& typed() { return data_; }

private:
    // Through the base, so that a step may keep its overrides private.
    auto const& base() const
    {
        if constexpr (std::is_base_of_v<compensatable_step<Data>, Step>)
            return static_cast<compensatable_step<Data> const&>(step_);
        else if constexpr (std::is_base_of_v<pivot_step<Data>, Step>)
            return static_cast<pivot_step<Data> const&>(step_);
        else return static_cast<retriable_step<Data> const&>(step_);
    }

    Step const& step_;
    received_data came_;
    Data data_;
};

template <class Data, class Step>
class typed_step final : public hosted_step
{
public:
    explicit typed_step(Step step) : step_{std::move(step)} {}

    std::unique_ptr<step_run> read(std::string_view body) const override
    {
        return std::make_unique<typed_run<Data, Step>>(step_, body);
    }

    bool does_batches() const override { return std::derived_from<Step, batch_step<Data>>; }

    batch_outcome execute_batch([[maybe_unused]] std::span<member_run const> all) const override
    {
        if constexpr (std::derived_from<Step, batch_step<Data>>) {
            std::vector<batch_member<Data>> members;
            for (auto const& one : all)
                members.push_back({one.ctx, static_cast<typed_run<Data, Step>&>(one.run).typed(), one.no});
            batch<Data> together{std::move(members)};
            auto const ended = static_cast<batch_step<Data> const&>(step_).execute_batch(together);
            if constexpr (std::derived_from<Step, retriable_step<Data>>)
                for (auto const& one : all)
                    if (one.no) return batch_outcome::one_by_one;
            return ended;
        }
        else {
            return batch_outcome::one_by_one;
        }
    }

private:
    Step step_;
};

}  // namespace skald::detail
