// Attributes: members of a saga's data that operators find it by. definition::attribute() names them.
//
//     inline constexpr auto place_order = skald::define("place-order", charge, ship)
//                                             .attribute<&order::customer>("customer")
//                                             .attribute<&order::city>("city");
//
// `skald saga list --where customer=bob` and the console then find the saga: docs/finding.md. Values are those at the
// saga's start.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace skald {

/// One attribute of a definition.
template <class Data>
struct named_attribute
{
    std::string_view name;                             // [a-z][a-z0-9-]{0,47}
    std::optional<std::string> (*value)(Data const&);  // of this data, as text; nothing: the saga does not have it
};

namespace detail {

inline constexpr std::size_t attributes_max = 8;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
concept has_to_string = requires(T const& value)
{
    // clang-format off
    { to_string(value) } -> std::convertible_to<std::string>;
    // clang-format on
};

template <class T>
std::optional<std::string> attribute_text(T const& value)
{
    if constexpr (is_optional<T>) {
        if (!value) return std::nullopt;
        return attribute_text(*value);
    }
    else if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
    else if constexpr (std::convertible_to<T const&, std::string_view>) return std::string{std::string_view{value}};
    else if constexpr (std::integral<T>) return std::to_string(value);
    else {
        static_assert(has_to_string<T> && !std::is_floating_point_v<T>,
                      "an attribute is text, a whole number, a bool, a type with a to_string(), or an optional of one");
        return to_string(value);
    }
}

template <auto Member, class Data>
std::optional<std::string> attribute_of(Data const& data)
{
    using kind = decltype(Member);
    if constexpr (std::is_member_object_pointer_v<kind>) return attribute_text(data.*Member);
    else if constexpr (std::is_member_function_pointer_v<kind>) return attribute_text((data.*Member)());
    else return attribute_text(Member(data));
}

/// An attribute of one saga.
struct attribute_value
{
    std::string_view name;
    std::optional<std::string> value;
};

/// As the text of a JSON object, without those that have no value or an empty one; empty if none is left. Throws
/// data_error for a value of more than 256 bytes, or that is not UTF-8 or has a NUL.
std::string write_attributes(std::span<attribute_value const> all);

/// Those of a saga with this data. Throws what write_attributes throws.
template <class Definition>
std::string attributes_of(Definition const& saga, typename Definition::data const& data)
{
    std::array<attribute_value, attributes_max> all;
    for (std::size_t i = 0; i < saga.attribute_count; ++i)
        all[i] = {saga.attributes[i].name, saga.attributes[i].value(data)};
    return saga.attribute_count == 0 ? std::string{} : write_attributes({all.data(), saga.attribute_count});
}

}  // namespace detail
}  // namespace skald
