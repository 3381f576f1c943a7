// A saga's data between its type and the bytes of a message.
#pragma once

#include <skald/errors.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <type_traits>

namespace skald::detail {

/// JSON that is safe to hand to nlohmann::json and to PostgreSQL: at most 64 levels deep, no name twice in an object,
/// no \u0000, no whole number beyond 64 bits. Throws data_error that says what and where. Reads the bytes once.
nlohmann::json parse_checked(std::string_view body);

/// Throws data_error beyond 64 levels. What copies or dumps a value calls itself for each.
void check_depth(nlohmann::json const& data);

/// Its text; and makes of it what parse_checked would make of that text, without reading it. Throws data_error where
/// that would be refused, and nlohmann's exception where text is not UTF-8.
std::string write_checked(nlohmann::json& data);

/// Throws data_error where a number came out of the type other than it went in, as 4294967297 does from an int.
void check_numbers_survived(nlohmann::json const& received, nlohmann::json const& understood);

/// Throws data_error where it does not fit the type.
template <class Data>
Data understand(nlohmann::json const& received)
try {
    Data data = received.get<Data>();
    check_numbers_survived(received, nlohmann::json(data));
    return data;
}
catch (nlohmann::json::exception const& error) {
    throw data_error{std::string{"the body does not fit the saga's data type: "} + error.what()};
}

template <class Data>
Data read_data(std::string_view body)
{
    return understand<Data>(parse_checked(body));
}

/// Throws data_error where the next step could not read what is written: text that is not UTF-8 or holds a NUL, a
/// number that is none. Better here, where it came from, than in the service that gets it.
template <class Data>
std::string write_data(Data const& data)
try {
    if constexpr (std::is_same_v<Data, nlohmann::json>) check_depth(data);
    auto written = nlohmann::json(data);
    auto text = write_checked(written);
    understand<Data>(written);
    return text;
}
catch (std::exception const& error) {
    throw data_error{std::string{"the saga's data can't be written as JSON: "} + error.what()};
}

}  // namespace skald::detail
