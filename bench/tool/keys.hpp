// Keys of sagas: random, or in order of time.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace skald_bench {

class key_maker
{
public:
    key_maker(bool ordered, std::uint64_t seed) : ordered_{ordered}, random_{seed} {}

    /// A UUIDv7 if the keys are ordered, otherwise a UUIDv4.
    std::string make();

private:
    bool ordered_;
    std::mt19937_64 random_;
};

}  // namespace skald_bench
