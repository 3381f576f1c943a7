// std::optional<T> as a member of a saga's data: nothing is `null`. Where nlohmann/json knows it by itself (from 3.12
// on), this header adds nothing. Missing members need the macros that end in _WITH_DEFAULT: docs/data.md.
//
//     struct order { std::string id; std::optional<std::string> note; };
//     NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(order, id, note)
//
// A program that has an adl_serializer of its own for std::optional<T> defines SKALD_WITHOUT_OPTIONAL.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>

#ifndef SKALD_WITHOUT_OPTIONAL

namespace skald::detail {

/// Whether nlohmann/json reads and writes std::optional<T> by itself. Nothing is said of JSON itself: a program may
/// have used std::optional<json> before it sees this header.
template <class T>
concept is_optional_known = nlohmann::detail::is_basic_json<T>::value ||
    requires(nlohmann::json& json, std::optional<T>& value)
{
    ::nlohmann::from_json(json, value);
    ::nlohmann::to_json(json, value);
};

}  // namespace skald::detail

/// @cond Doxygen does not find a namespace that is not ours.
// Reads and writes the value, or null.
template <class T>
requires(!skald::detail::is_optional_known<T>) struct nlohmann::adl_serializer<std::optional<T>>
{
    template <class Json>
    static void to_json(Json& json, std::optional<T> const& value)
    {
        if (value) json = *value;
        else json = nullptr;
    }

    template <class Json>
    static void from_json(Json const& json, std::optional<T>& value)
    {
        if (json.is_null()) value.reset();
        else value = json.template get<T>();
    }
};
/// @endcond

#endif
