// Why a step can't be hosted, in the first line of what the compiler says.
#pragma once

#include <skald/detail/hosted_external_step.hpp>

#include <type_traits>

namespace skald::detail {

// The data type of the base that a class has. Never defined: only their types count.
template <class Data>
Data data_of(compensatable_step<Data> const*);
template <class Data>
Data data_of(pivot_step<Data> const*);
template <class Data>
Data data_of(retriable_step<Data> const*);
template <class Data, class Result>
Data data_of(external_step<Data, Result> const*);
template <class Data, class Result>
Data data_of(external_retriable_step<Data, Result> const*);
template <class Data, class Signal>
Data data_of(wait_step<Data, Signal> const*);
template <class Data>
Data data_of(sleep_step<Data> const*);

template <class Step>
concept is_some_step = requires(Step const* step)
{
    data_of(step);
};

template <class Data, class Step>
concept is_step_of = is_some_step<Step> && std::is_same_v<decltype(data_of(static_cast<Step const*>(nullptr))), Data>;

enum class host_mistake {
    other_data,
    no_step,
    class_on_other_data,
    compensatable_as_pivot,
    compensatable_as_retriable,
    pivot_as_compensatable,
    pivot_as_retriable,
    retriable_that_is_not,
    retriable_that_calls_and_rejects,
    external_retriable_elsewhere,
    retriable_that_waits,
    call_without_undo,
    arguments
};

template <class Data, class Other, step_kind Kind, class Step>
consteval host_mistake mistake_of_host()
{
    using enum host_mistake;
    if (!std::is_same_v<Data, Other>) return other_data;
    if (!is_some_step<Step>) return no_step;
    if constexpr (is_step_of<Data, Step>) {
        constexpr bool is_compensatable = std::derived_from<Step, compensatable_step<Data>>;
        constexpr bool is_pivot = std::derived_from<Step, pivot_step<Data>>;
        constexpr bool is_retriable = std::derived_from<Step, retriable_step<Data>>;
        if (Kind == step_kind::compensatable && is_pivot) return compensatable_as_pivot;
        if (Kind == step_kind::compensatable && is_retriable) return compensatable_as_retriable;
        if (Kind == step_kind::pivot && is_compensatable) return pivot_as_compensatable;
        if (Kind == step_kind::pivot && is_retriable) return pivot_as_retriable;
        if (Kind == step_kind::retriable && (is_compensatable || is_pivot)) return retriable_that_is_not;
        if (Kind == step_kind::retriable && is_external<Data, Step>) return retriable_that_calls_and_rejects;
        if (Kind != step_kind::retriable && is_external_retriable<Data, Step>) return external_retriable_elsewhere;
        if (Kind == step_kind::retriable && is_wait<Data, Step>) return retriable_that_waits;
        if (Kind == step_kind::compensatable && is_external<Data, Step>) return call_without_undo;
        return arguments;
    }
    return class_on_other_data;
}

/// Fails to compile with the one reason. For arguments that no host() takes.
template <class Data, class Other, step_kind Kind, class Step>
consteval void explain_host()
{
    using enum host_mistake;
    constexpr auto is = mistake_of_host<Data, Other, Kind, Step>();
    static_assert(is != other_data, "the step's handle has another data type than the definition");
    static_assert(is != no_step,
                  "the class derives from none of Skald's steps: compensatable_step<Data>, pivot_step<Data>, "
                  "retriable_step<Data>, external_step<Data, Result>, wait_step<Data, Signal> and their like");
    static_assert(is != class_on_other_data,
                  "the class works on another data type than the definition: its base must have the definition's");
    static_assert(is != compensatable_as_pivot,
                  "the handle is skald::compensatable and the class a pivot_step: derive it from compensatable_step, "
                  "with compensate(), or make the handle a skald::pivot");
    static_assert(is != compensatable_as_retriable,
                  "the handle is skald::compensatable and the class a retriable_step: derive it from "
                  "compensatable_step, with compensate(), or make the handle a skald::retriable");
    static_assert(is != pivot_as_compensatable,
                  "the handle is skald::pivot and the class a compensatable_step: a pivot is never undone; derive it "
                  "from pivot_step, or make the handle a skald::compensatable");
    static_assert(is != pivot_as_retriable,
                  "the handle is skald::pivot and the class a retriable_step: derive it from pivot_step, or make the "
                  "handle a skald::retriable");
    static_assert(is != retriable_that_is_not,
                  "the handle is skald::retriable: nothing after the pivot rejects or is undone; derive the class from "
                  "retriable_step");
    static_assert(is != retriable_that_calls_and_rejects,
                  "the handle is skald::retriable and the class an external_step, which may reject: derive it from "
                  "external_retriable_step");
    static_assert(is != external_retriable_elsewhere,
                  "the class is an external_retriable_step and the handle not skald::retriable: derive it from "
                  "external_step");
    static_assert(is != retriable_that_waits,
                  "the handle is skald::retriable and the class a wait_step, which may reject: sleep_step is what may "
                  "wait there");
    static_assert(is != call_without_undo,
                  "a compensatable external step is hosted with what undoes it: host(saga, step, object, undo), where "
                  "undo derives from compensation<Data> or external_compensation<Data, Result>");
    static_assert(is != arguments,
                  "host() takes a definition, one of its steps, an object of the step's class and, if you like, "
                  "step_options");
}

}  // namespace skald::detail
