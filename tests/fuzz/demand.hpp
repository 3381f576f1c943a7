// What a fuzz target says of its input. A claim that does not hold ends the process, and libFuzzer keeps the input.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace skald::fuzz {

inline void demand(bool holds, char const* claim)
{
    if (holds) return;
    std::fprintf(stderr, "fuzz: does not hold: %s\n", claim);
    std::abort();
}

inline std::string_view text_of(std::uint8_t const* data, std::size_t size)
{
    return {reinterpret_cast<char const*>(data), size};
}

/// Takes what stands before the first `separator` off the front of `rest`, and the separator with it.
inline std::string_view take_until(std::string_view& rest, char separator)
{
    auto const taken = rest.substr(0, rest.find(separator));
    rest.remove_prefix(taken.size() < rest.size() ? taken.size() + 1 : rest.size());
    return taken;
}

}  // namespace skald::fuzz
