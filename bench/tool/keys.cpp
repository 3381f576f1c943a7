#include "keys.hpp"

#include <chrono>

#include <fmt/format.h>

namespace skald_bench {

std::string key_maker::make()
{
    std::uint64_t high = random_();
    std::uint64_t const low = random_();
    if (ordered_) {
        using namespace std::chrono;
        auto const ms = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
        high = static_cast<std::uint64_t>(ms) << 16 | (high & 0xffff);
    }
    return fmt::format("{:08x}-{:04x}-{}{:03x}-8{:03x}-{:012x}", high >> 32, high >> 16 & 0xffff, ordered_ ? 7 : 4,
                       high & 0xfff, low >> 48 & 0xfff, low & 0xffffffffffff);
}

}  // namespace skald_bench
