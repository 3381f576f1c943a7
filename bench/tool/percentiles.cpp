#include "percentiles.hpp"

#include <algorithm>
#include <cmath>

namespace skald_bench {

percentiles percentiles_of(std::vector<double> milliseconds)
{
    if (milliseconds.empty()) return {};
    std::ranges::sort(milliseconds);
    auto const at = [&](double part) {
        // A little less, so that 0.99 x 100, which is not quite 99 in binary, is the 99th and not the 100th.
        auto const rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(milliseconds.size()) - 1e-9));
        return milliseconds[std::max<std::size_t>(rank, 1) - 1];
    };
    return {milliseconds.size(), at(0.50), at(0.95), at(0.99), at(0.999), milliseconds.back()};
}

}  // namespace skald_bench
