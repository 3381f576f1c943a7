// The definition of a saga: its name and its steps in order, checked by the compiler.
//
//     namespace steps {
//     inline constexpr skald::compensatable<order> charge_payment{"charge-payment", "payments"};
//     inline constexpr skald::pivot<order>         arrange_shipping{"arrange-shipping", "shipping"};
//     }
//     inline constexpr auto place_order = skald::define("place-order", steps::charge_payment, steps::arrange_shipping);
//
// A definition that breaks these rules does not compile: compensatable steps, then at most one pivot (the point of no
// return), then retriable steps; one data type; every name once. Garcia-Molina and Salem, "Sagas" (1987).
//
// Names are stored and travel in messages: they are chosen here, once, and do not change when a class is renamed.
// Lifetime: handles and definitions are constants that refer to string literals.
#pragma once

#include <skald/attribute.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace skald {

/// What a step may do to its saga, in the order in which steps must come.
enum class step_kind {
    compensatable,  // can be undone: has `compensate`
    pivot,          // the point of no return: if it commits, the saga will complete
    retriable,      // after the pivot: may be late, never rejects
};

/// Names one step: what it is called, which service runs it, and the saga's data type.
template <class Data, step_kind Kind>
struct step_handle
{
    std::string_view name;     // [a-z][a-z0-9-]{0,47}
    std::string_view service;  // likewise

    using data = Data;                       // what the saga carries from step to step
    static constexpr step_kind kind = Kind;  // which class the step derives from
};

template <class Data>
using compensatable = step_handle<Data, step_kind::compensatable>;  // a compensatable_step<Data>
template <class Data>
using pivot = step_handle<Data, step_kind::pivot>;  // a pivot_step<Data>
template <class Data>
using retriable = step_handle<Data, step_kind::retriable>;  // a retriable_step<Data>

/// One step of a plan, without its type.
struct planned_step
{
    std::string_view name;     // of the step
    std::string_view service;  // that runs it
    step_kind kind;            // before, at or after the pivot
};

template <class Old, class Current, class Function>
struct upcasting;  // skald/upcast.hpp

namespace detail {

// Never defined, like those below.
void a_version_is_from_1_to_2000000000();
void an_attribute_is_named_twice();
void a_definition_has_at_most_8_attributes();
void a_name_must_begin_with_a_letter_and_have_only_lower_case_letters_digits_and_dashes_at_most_48();

constexpr bool is_name(std::string_view text)
{
    auto const lower = [](char c) { return c >= 'a' && c <= 'z'; };
    if (text.empty() || text.size() > 48 || !lower(text.front())) return false;
    for (char const c : text)
        if (!lower(c) && !(c >= '0' && c <= '9') && c != '-') return false;
    return true;
}

constexpr void check_name(std::string_view text)
{
    if (!is_name(text)) a_name_must_begin_with_a_letter_and_have_only_lower_case_letters_digits_and_dashes_at_most_48();
}

void a_version_with_an_upcast_is_above_the_one_before();
void a_definition_has_at_most_16_upcasts_and_16_retired_steps();
void a_retired_step_is_not_in_the_plan();
void a_retired_step_is_named_once();

constexpr void check_version(int number)
{
    if (number < 1 || number > 2'000'000'000) a_version_is_from_1_to_2000000000();
}

/// Turns the data of the version before into that of `version`. Throws data_error.
struct upcast_to
{
    int version{};
    std::string (*apply)(std::string_view body){};
};

/// At most so many of something, in the order in which they were added.
template <class Item>
struct few
{
    std::array<Item, 16> items{};
    std::size_t count{};

    constexpr Item const* begin() const { return items.data(); }
    constexpr Item const* end() const { return items.data() + count; }

    constexpr few with(Item const& one) const
    {
        if (count == items.size()) a_definition_has_at_most_16_upcasts_and_16_retired_steps();
        few more = *this;
        more.items[more.count++] = one;
        return more;
    }
};

template <class Definition, class Reached>
struct unfinished_upcasts;

}  // namespace detail

/// The named, ordered steps of a saga. define() creates and checks one.
template <class Data, step_kind... Kinds>
struct definition
{
    using data = Data;                                             // of each of its steps
    static constexpr std::size_t size = sizeof...(Kinds);          // how many steps: 1 to 64
    static constexpr std::array<step_kind, size> kinds{Kinds...};  // of each step, in order

    std::string_view name;                 // [a-z][a-z0-9-]{0,47}
    std::array<planned_step, size> steps;  // in order
    int version{1};  // travels with every message; running sagas keep the plan that they started with

    std::array<named_attribute<Data>, detail::attributes_max> attributes{};  // what its sagas are found by
    std::size_t attribute_count{};                                           // how many of those

    detail::few<detail::upcast_to> upcasts{};   // for Skald: what versioned() was given
    detail::few<planned_step> retired_steps{};  // likewise, retired()

    /// The same definition under another version: `define(...).versioned(2)`.
    constexpr definition versioned(int number) const
    {
        detail::check_version(number);
        if (upcasts.count > 0 && number < version) detail::a_version_with_an_upcast_is_above_the_one_before();
        auto other = *this;
        other.version = number;
        return other;
    }

    /// The same definition, whose sagas can be found by what `Member` is when they start: a member of the data, or a
    /// function of it. Text, a whole number, a bool, a type with a `to_string()` beside it, or a std::optional of one;
    /// a saga without a value, or with an empty one, is not found by it. At most 8, of at most 256 bytes each: a longer
    /// value is a data_error where the saga is started. What is not named is not indexed. See docs/finding.md.
    template <auto Member>
    consteval definition attribute(std::string_view called) const
    {
        static_assert(std::is_invocable_v<decltype(Member), Data const&>,
                      "an attribute is a member of the saga's data, or a function of it");
        detail::check_name(called);
        if (attribute_count == detail::attributes_max) detail::a_definition_has_at_most_8_attributes();
        for (std::size_t i = 0; i < attribute_count; ++i)
            if (attributes[i].name == called) detail::an_attribute_is_named_twice();
        auto more = *this;
        more.attributes[more.attribute_count++] = {called, detail::attribute_of<Member, Data>};
        return more;
    }

    /// The same, where data of this version has another form than before: skald/upcast.hpp.
    template <class Old, class Function>
    constexpr definition versioned(int number, upcasting<Old, Data, Function>) const
    {
        return with_upcast(number, &upcasting<Old, Data, Function>::apply);
    }

    /// One that does not lead to `Data` yet: the next versioned() goes on from `Current`.
    template <class Old, class Current, class Function>
    constexpr detail::unfinished_upcasts<definition, Current> versioned(int number,
                                                                        upcasting<Old, Current, Function>) const
    {
        return {with_upcast(number, &upcasting<Old, Current, Function>::apply)};
    }

    /// The same plan, and a step that it had once: host() takes it, for sagas that began with an older plan. Remove it
    /// when `skald saga versions` shows none of these: docs/change.md.
    template <step_kind Kind>
    constexpr definition retired(step_handle<Data, Kind> step) const
    {
        detail::check_name(step.name);
        detail::check_name(step.service);
        for (auto const& one : steps)
            if (one.name == step.name) detail::a_retired_step_is_not_in_the_plan();
        for (auto const& one : retired_steps)
            if (one.name == step.name) detail::a_retired_step_is_named_once();
        auto other = *this;
        other.retired_steps = retired_steps.with({step.name, step.service, Kind});
        return other;
    }

    /// For Skald.
    constexpr definition with_upcast(int number, std::string (*apply)(std::string_view)) const
    {
        detail::check_version(number);
        if (number <= version) detail::a_version_with_an_upcast_is_above_the_one_before();
        auto other = *this;
        other.version = number;
        other.upcasts = upcasts.with({number, apply});
        return other;
    }
};

namespace detail {

/// A definition whose upcasts do not lead to its steps' data type yet.
template <class Definition, class Reached>
struct unfinished_upcasts
{
    Definition made;

    template <class Old, class Current, class Function>
    constexpr auto versioned(int number, upcasting<Old, Current, Function>) const
    {
        static_assert(std::is_same_v<Old, Reached>,
                      "upcasts are a chain: each begins with the type at which the one before it ends");
        auto const longer = made.with_upcast(number, &upcasting<Old, Current, Function>::apply);
        if constexpr (std::is_same_v<Current, typename Definition::data>) return longer;
        else return unfinished_upcasts<Definition, Current>{longer};
    }
};

// Never defined: a mistake in a definition calls one of them, and its name is what the compiler prints.
void a_step_name_is_used_twice();

template <step_kind... Kinds>
consteval bool in_order()
{
    int pivots = 0;
    step_kind last = step_kind::compensatable;
    for (step_kind const kind : {Kinds...}) {
        if (kind < last) return false;
        last = kind;
        pivots += kind == step_kind::pivot;
    }
    return pivots <= 1;
}

}  // namespace detail

/// The definition of the saga `name` with its steps in order.
template <class First, class... Rest>
consteval auto define(std::string_view name, First first, Rest... rest)
{
    static_assert((std::is_same_v<typename First::data, typename Rest::data> && ...),
                  "every step of a definition works on the same data type");
    static_assert(sizeof...(Rest) < 64, "a definition has at most 64 steps");
    static_assert(detail::in_order<First::kind, Rest::kind...>(),
                  "steps come in this order: compensatable steps, at most one pivot, retriable steps");

    definition<typename First::data, First::kind, Rest::kind...> made{
        name, {{{first.name, first.service, First::kind}, {rest.name, rest.service, Rest::kind}...}}, 1, {}, {}, {},
        {}};
    detail::check_name(name);
    for (std::size_t i = 0; i < made.size; ++i) {
        detail::check_name(made.steps[i].name);
        detail::check_name(made.steps[i].service);
        for (std::size_t j = i + 1; j < made.size; ++j)
            if (made.steps[i].name == made.steps[j].name) detail::a_step_name_is_used_twice();
    }
    return made;
}

}  // namespace skald
