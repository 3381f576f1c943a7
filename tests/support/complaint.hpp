// What is said against bad input.
#pragma once

#include <skald/errors.hpp>

#include <string>
#include <string_view>

namespace skald::test {

/// What the error says that `act()` throws; empty where it throws none. Others pass through.
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
