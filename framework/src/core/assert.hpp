// What must hold between two parts of the framework, said where it matters and looked at in every build.
//
// A process that dies is a fault that everything here survives: what it had under way is delivered again, and the guard
// knows what was done. One that goes on after it has lost count is not. So it ends, and says where. Only our own
// mistakes may come to that: what a client, a broker, a database or a step does wrong is answered, thrown or
// parked.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace skald::core {

[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(char const* what, char const* file,
                                                                    int line) noexcept
{
    std::fprintf(stderr, "%s:%d: this must hold, and did not: %s\n", file, line, what);
    std::abort();
}

}  // namespace skald::core

/// To be cheap, and without effect.
#define SKALD_ASSERT(...)                                                                                              \
    ((__VA_ARGS__) ? static_cast<void>(0) : ::skald::core::assertion_failed(#__VA_ARGS__, __FILE__, __LINE__))
