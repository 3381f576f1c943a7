// Steps of skald/external_step.hpp and skald/wait_step.hpp without their types, as the runtime sees them.
#pragma once

#include <skald/detail/deadline.hpp>
#include <skald/detail/external_work.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/external_step.hpp>
#include <skald/wait_step.hpp>

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>

namespace skald::detail {

template <class Data, class Step>
concept is_external = std::derived_from<Step, external_step<Data, typename Step::result_type>>;
template <class Data, class Step>
concept is_external_retriable = std::derived_from<Step, external_retriable_step<Data, typename Step::result_type>>;
template <class Data, class Step>
concept is_wait = std::derived_from<Step, wait_step<Data, typename Step::signal_type>>;
template <class Data, class Step>
concept is_sleep = std::derived_from<Step, sleep_step<Data>>;
template <class Data, class Undo>
concept is_external_compensation = std::derived_from<Undo, external_compensation<Data, typename Undo::result_type>>;
template <class Data, class Undo>
concept is_compensation = std::derived_from<Undo, compensation<Data>> || is_external_compensation<Data, Undo>;

/// Where there is nothing to undo.
struct nothing_to_undo
{};

// What is known of the end of a step, which may have been said by a person.
inline constexpr reading as_result{"the result", "the step's result type"};
inline constexpr reading as_signal{"the signal", "the step's signal type"};

// The interface that an object implements: through it, its overrides may be private.
template <class Data, class Step>
auto const& interface_of(Step const& step)
{
    if constexpr (is_external<Data, Step>)
        return static_cast<external_step<Data, typename Step::result_type> const&>(step);
    else if constexpr (is_external_retriable<Data, Step>)
        return static_cast<external_retriable_step<Data, typename Step::result_type> const&>(step);
    else if constexpr (is_external_compensation<Data, Step>)
        return static_cast<external_compensation<Data, typename Step::result_type> const&>(step);
    else if constexpr (is_wait<Data, Step>)
        return static_cast<wait_step<Data, typename Step::signal_type> const&>(step);
    else return static_cast<sleep_step<Data> const&>(step);
}

/// A run of one function on the data.
template <class Data>
class function_run final : public step_run
{
public:
    using function = std::function<outcome(step_context&, Data&)>;
    function_run(std::string_view body, function code) : data_(read_data<Data>(body, came_)), code_{std::move(code)} {}

    outcome execute(step_context& ctx) override { return code_(ctx, data_); }
    void compensate(step_context& ctx) override { code_(ctx, data_); }
    std::string data() override { return write_data(data_, came_); }
    void const* object() const override { return &data_; }

private:
    received_data came_;
    Data data_;
    function code_;
};

// Of a compensation these return nothing.
template <class Code>
outcome ended(Code code)
{
    if constexpr (std::is_void_v<decltype(code())>) {
        code();
        return done();
    }
    else return code();
}

template <class Data, class Step>
class call_work final : public external_work
{
public:
    using result = typename Step::result_type;
    explicit call_work(Step const& step) : step_{step} {}

    bool is_call() const override { return true; }
    bool takes_signal() const override { return false; }
    std::optional<std::string> why_no_signal(std::string_view) const override { return {}; }
    std::chrono::milliseconds due_in(std::string_view, step_context const&) const override { return {}; }

    std::string call(call_context& ctx, std::string_view body) const override
    {
        return write_data(interface_of<Data>(step_).call(ctx, read_data<Data>(body)), as_result.what);
    }

    look_result look(call_context& ctx, std::string_view body) const override
    {
        auto const found = interface_of<Data>(step_).look(ctx, read_data<Data>(body));
        if (auto const* const what = found.happened())
            return {look_result::answer::happened, write_data(*what, as_result.what)};
        if (auto const* const what = found.unknown()) return {look_result::answer::unknown, what->why};
        return {look_result::answer::did_not_happen};
    }

    std::unique_ptr<step_run> settle(std::string_view body, std::optional<std::string> const& answer) const override
    {
        auto what = read_data<result>(answer.value(), as_result);
        return std::make_unique<function_run<Data>>(
            body, [this, what = std::move(what)](step_context& ctx, Data& data) {
                return ended([&] { return interface_of<Data>(step_).settle(ctx, data, what); });
            });
    }

    std::unique_ptr<step_run> abandon(std::string_view body) const override
    {
        return std::make_unique<function_run<Data>>(body, [this](step_context& ctx, Data& data) {
            interface_of<Data>(step_).abandon(ctx, data);
            return outcome{done()};
        });
    }

private:
    Step const& step_;
};

template <class Data, class Step>
class wait_work final : public external_work
{
public:
    explicit wait_work(Step const& step) : step_{step} {}

    bool is_call() const override { return false; }
    bool takes_signal() const override { return is_wait<Data, Step>; }

    std::optional<std::string> why_no_signal([[maybe_unused]] std::string_view json) const override
    {
        if constexpr (is_wait<Data, Step>) {
            try {
                read_data<typename Step::signal_type>(json, as_signal);
            }
            catch (data_error const& error) {
                return error.what();
            }
        }
        return {};
    }

    std::chrono::milliseconds due_in(std::string_view body, step_context const& ctx) const override
    {
        auto const data = read_data<Data>(body);
        if constexpr (is_wait<Data, Step>) return interface_of<Data>(step_).timeout(data);
        else {
            auto const now = std::chrono::floor<std::chrono::milliseconds>(ctx.now());
            // What is beyond every clock, such as max(), would overflow where it meets another one.
            return std::clamp(interface_of<Data>(step_).until(data), now - deadline_max, now + deadline_max) - now;
        }
    }

    std::string call(call_context&, std::string_view) const override { throw std::logic_error{"a wait calls nothing"}; }
    look_result look(call_context&, std::string_view) const override { throw std::logic_error{"a wait calls nothing"}; }

    std::unique_ptr<step_run> settle([[maybe_unused]] std::string_view body,
                                     [[maybe_unused]] std::optional<std::string> const& answer) const override
    {
        if constexpr (is_wait<Data, Step>) {
            auto const& step = interface_of<Data>(step_);
            if (!answer) return run(body, [&step](auto& ctx, auto& data) { return step.timed_out(ctx, data); });
            auto signal = read_data<typename Step::signal_type>(*answer, as_signal);
            return run(body, [&step, signal = std::move(signal)](auto& ctx, auto& data) {
                return step.arrived(ctx, data, signal);
            });
        }
        else return run(body, [](auto&, auto&) { return outcome{done()}; });
    }

    std::unique_ptr<step_run> abandon(std::string_view body) const override
    {
        if constexpr (is_wait<Data, Step>) {
            auto const& step = interface_of<Data>(step_);
            return run(body, [&step](step_context& ctx, Data& data) {
                step.abandon(ctx, data);
                return outcome{done()};
            });
        }
        else return run(body, [](step_context&, Data&) { return outcome{done()}; });
    }

private:
    static std::unique_ptr<step_run> run(std::string_view body, typename function_run<Data>::function code)
    {
        return std::make_unique<function_run<Data>>(body, std::move(code));
    }

    Step const& step_;
};

/// A step of two transactions, with what undoes it.
template <class Data, class Step, class Undo = nothing_to_undo>
class typed_external_step final : public hosted_step
{
public:
    explicit typed_external_step(Step step, Undo undo = {}) : step_{std::move(step)}, undo_{std::move(undo)}
    {
        if constexpr (is_wait<Data, Step> || is_sleep<Data, Step>)
            work_ = std::make_unique<wait_work<Data, Step>>(step_);
        else work_ = std::make_unique<call_work<Data, Step>>(step_);
        if constexpr (!std::is_same_v<Undo, nothing_to_undo>)
            if constexpr (is_external_compensation<Data, Undo>)
                undo_work_ = std::make_unique<call_work<Data, Undo>>(undo_);
    }

    std::unique_ptr<step_run> read(std::string_view body) const override
    {
        return std::make_unique<first_run>(*this, body);
    }

    bool does_batches() const override { return false; }
    batch_outcome execute_batch(std::span<member_run const>) const override { return batch_outcome::one_by_one; }

    external_work const* external(bool is_forward) const override
    {
        return is_forward ? work_.get() : undo_work_.get();
    }

private:
    class first_run final : public step_run
    {
    public:
        first_run(typed_external_step const& own, std::string_view body)
            : own_{own}, data_(read_data<Data>(body, came_))
        {}

        outcome execute(step_context& ctx) override
        {
            auto const& step = interface_of<Data>(own_.step_);
            if constexpr (is_wait<Data, Step>) return step.begin(ctx, data_);
            else if constexpr (is_sleep<Data, Step>) return done();
            else return step.prepare(ctx, data_);
        }

        void compensate([[maybe_unused]] step_context& ctx) override
        {
            if constexpr (!std::is_same_v<Undo, nothing_to_undo>) {
                if constexpr (is_external_compensation<Data, Undo>) interface_of<Data>(own_.undo_).prepare(ctx, data_);
                else static_cast<compensation<Data> const&>(own_.undo_).compensate(ctx, data_);
            }
        }

        std::string data() override { return write_data(data_, came_); }
        void const* object() const override { return &data_; }

    private:
        typed_external_step const& own_;
        received_data came_;
        Data data_;
    };

    Step step_;
    Undo undo_;
    std::unique_ptr<external_work> work_, undo_work_;  // refer to those two
};

}  // namespace skald::detail
