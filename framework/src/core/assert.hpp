// Invariants between parts of the framework, stated where they matter and checked in every build.
//
// A process that dies is a fault that everything here survives: what it had in flight is delivered again, and the guard
// knows what was done. A process that goes on in an inconsistent state is not. So it ends, and says where. Only our own
// mistakes may lead to that: what a client, a broker, a database or a step does wrong gets a response, an exception or
// is parked.
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

/// The condition must be cheap, and without side effects.
#define SKALD_ASSERT(...)                                                                                              \
    ((__VA_ARGS__) ? static_cast<void>(0) : ::skald::core::assertion_failed(#__VA_ARGS__, __FILE__, __LINE__))
