// How long a duplicate is held back.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <random>

namespace skald::tools {

/// The delay of a message's copy number `copy`, counted from 0. Nothing: until the duplicator has to hurry.
using delay_rule = std::function<std::optional<std::chrono::milliseconds>(int copy, std::mt19937_64& random)>;

/// The first copy at once, the others at a random moment within `longest`.
inline delay_rule now_and_later(std::chrono::milliseconds longest)
{
    return [longest](int copy, std::mt19937_64& random) -> std::optional<std::chrono::milliseconds> {
        using count = std::chrono::milliseconds::rep;
        auto const drawn = std::uniform_int_distribution<count>{0, longest.count()}(random);
        return std::chrono::milliseconds{copy == 0 ? 0 : drawn};
    };
}

}  // namespace skald::tools
