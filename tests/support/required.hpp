// The variables that say where the servers of a test are.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace skald::test {

/// The variable, or an error that says how to get one: a test that silently does nothing would count as passed.
inline std::string required(char const* variable)
{
    char const* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0')
        throw std::runtime_error{std::string{variable} +
                                 " is not set: these tests need a stack of their own; run eval \"$(scripts/stack.sh up "
                                 "DIR)\" and export SKALD_TEST_STACK=DIR, or run scripts/test.sh"};
    return value;
}

}  // namespace skald::test
