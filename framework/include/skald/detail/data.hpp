// A saga's data between its type and the bytes of a message.
#pragma once

#include <skald/errors.hpp>
#include <skald/optional.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace skald::detail {

/// JSON that is safe to pass to nlohmann::json and to PostgreSQL: at most 64 levels deep, no name twice in an object,
/// no \u0000, no integer of more than 64 bits. Throws data_error that says what and where. Reads the bytes once.
nlohmann::json parse_checked(std::string_view body);

/// Throws data_error for more than 64 levels: what copies or dumps a value recurses once for each.
void check_depth(nlohmann::json const& data);

/// Returns its text, and turns `data` into what parse_checked would make of that text, without reading it. Throws
/// data_error if that would be refused or a number is not finite, and nlohmann's exception if text is not UTF-8.
std::string write_checked(nlohmann::json& data);

/// Whether nlohmann::json converts the type both ways.
template <class Data>
concept has_json_form = std::is_constructible_v<nlohmann::json, Data const&> && requires(nlohmann::json const& j)
{
    j.template get<Data>();
};

/// The first thing that the compiler says of a type without one. No function: GCC 14 looks into one only later.
template <class Data>
struct needs_json_form
{
    static_assert(has_json_form<Data>,
                  "this type is sent as JSON, and nlohmann::json does not know how: put "
                  "NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(type, member, ...) behind it, in its namespace; each member's "
                  "type needs the same");
};

/// Data as received: its bytes, their parsed value, and what its type writes of that before the step runs.
struct received_data
{
    std::string body;
    nlohmann::json whole;
    nlohmann::json known;
};

/// Whether the two are written the same.
bool is_same(nlohmann::json const& one, nlohmann::json const& other);

/// Applies to `came.whole` the changes that lead from `came.known` to `after`, and returns its text, in which what did
/// not change, unknown members included, has the bytes received. Throws what write_checked throws. Rules: docs/data.md.
std::string write_changes(received_data& came, nlohmann::json const& after);

/// What is read, as what: for messages.
struct reading
{
    std::string_view what{"the body"};
    std::string_view type{"the saga's data type"};
};

/// Throws data_error if a number came out of the type different from how it went in, as 4294967297 does from an int.
void check_numbers_survived(nlohmann::json const& received, nlohmann::json const& understood,
                            std::string_view type = reading{}.type);

/// What reading it says; empty if it fits.
using misreading = std::string (*)(nlohmann::json const& data);

/// What is wrong with it: the path of the value, of which type it is and of which it must be. `error` is what was said
/// of it, in nlohmann's words; these are returned where nothing better is known.
std::string explain_misfit(nlohmann::json const& received, std::string_view error, misreading read_again);

template <class Data>
std::string misread(nlohmann::json const& data)
try {
    (void)data.get<Data>();
    return {};
}
catch (std::exception const& error) {
    return error.what();
}

/// Throws data_error if it does not fit the type. `known` becomes what the type writes of it.
template <class Data>
Data understand(nlohmann::json const& received, nlohmann::json& known, reading const& as = {})
try {
    [[maybe_unused]] needs_json_form<Data> const has_one;
    Data data = received.get<Data>();
    known = nlohmann::json(data);
    check_numbers_survived(received, known, as.type);
    return data;
}
catch (nlohmann::json::exception const& error) {
    throw data_error{std::string{as.what}.append(" does not fit ").append(as.type).append(": ") +
                     explain_misfit(received, error.what(), misread<Data>)};
}

template <class Data>
Data understand(nlohmann::json const& received, reading const& as = {})
{
    nlohmann::json known;
    return understand<Data>(received, known, as);
}

template <class Data>
Data read_data(std::string_view body, reading const& as = {})
{
    return understand<Data>(parse_checked(body), as);
}

/// Throws data_error if the next step could not read what is written: text that is not UTF-8 or holds a NUL, a number
/// that is not finite. Better here, where it originates, than in the service that receives it.
template <class Data>
std::string write_data(Data const& data, std::string_view what = "the saga's data")
try {
    [[maybe_unused]] needs_json_form<Data> const has_one;
    if constexpr (std::is_same_v<Data, nlohmann::json>) check_depth(data);
    auto written = nlohmann::json(data);
    auto text = write_checked(written);
    understand<Data>(written);
    return text;
}
catch (std::exception const& error) {
    throw data_error{std::string{what}.append(" can't be written as JSON: ") + error.what()};
}

template <class Data>
Data read_data(std::string_view body, received_data& came, reading const& as = {})
{
    came.body = body;
    came.whole = parse_checked(body);
    return understand<Data>(came.whole, came.known, as);
}

/// What the type writes of it; nothing if it does not fit.
template <class Data>
std::optional<nlohmann::json> written_again(nlohmann::json const& data)
try {
    nlohmann::json known;
    understand<Data>(data, known);
    return known;
}
catch (data_error const&) {
    return std::nullopt;
}

/// The received data with the changes made since it was read; the same bytes if there are none. Afterwards `came` is
/// what was written. Throws as write_data(data).
template <class Data>
std::string write_data(Data const& data, received_data& came)
try {
    if constexpr (std::is_same_v<Data, nlohmann::json>) check_depth(data);
    auto after = nlohmann::json(data);
    if (is_same(came.known, after)) return came.body;
    auto text = write_changes(came, after);
    auto const read_again = written_again<Data>(came.whole);
    if (!read_again || !is_same(*read_again, after)) {
        // Either the type never reads back what it wrote, or it reads members that it does not write, and they hide
        // the change: then only what it writes goes on.
        auto alone = after;
        auto text_alone = write_checked(alone);
        nlohmann::json alone_again;
        understand<Data>(alone, alone_again);
        if (!read_again || !is_same(*read_again, alone_again)) {
            text = std::move(text_alone);
            came.whole = std::move(alone);
        }
    }
    came.body = text;
    came.known = std::move(after);
    return text;
}
catch (std::exception const& error) {
    throw data_error{std::string{"the saga's data can't be written as JSON: "} + error.what()};
}

}  // namespace skald::detail
