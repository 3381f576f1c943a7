// Options that are a time, and say in what unit: `90s`, `15m`.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace skald::tools {

inline CLI::AsNumberWithUnit milliseconds_with_unit()
{
    return CLI::AsNumberWithUnit{
        std::map<std::string, std::int64_t>{{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}},
        CLI::AsNumberWithUnit::UNIT_REQUIRED};
}

}  // namespace skald::tools
