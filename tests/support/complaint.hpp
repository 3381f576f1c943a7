// The error message that bad input gets.
#pragma once

#include <skald/errors.hpp>

#include <string>
#include <string_view>

namespace skald::test {

/// The message of the error that `act()` throws; empty if it throws none. Others pass through.
template <class Error = configuration_error, class Act>
std::string complaint_about(Act act)
{
    try {
        act();
    }
    catch (Error const& error) {
        return error.what();
    }
    return "";
}

inline bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

}  // namespace skald::test
