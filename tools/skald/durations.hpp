// Options that are a number; and those that are a time, and say in what unit: `90s`, `15m`.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <system_error>

namespace skald::tools {

inline CLI::AsNumberWithUnit milliseconds_with_unit()
{
    return CLI::AsNumberWithUnit{
        std::map<std::string, std::int64_t>{{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}},
        CLI::AsNumberWithUnit::UNIT_REQUIRED};
}

/// One that does not fit into 64 bits is refused, for CLI11 takes it for the largest that does.
inline CLI::Validator a_count()
{
    auto const refuse = [](std::string const& text) {
        std::int64_t read{};
        auto const* const end = text.data() + text.size();
        auto const [at, error] = std::from_chars(text.data(), end, read);
        bool const is_one = error == std::errc{} && at == end && read >= 0;
        return is_one ? std::string{} : "'" + text + "' is not a whole number from 0 on that fits into 64 bits";
    };
    return {refuse, "COUNT", "count"};
}

}  // namespace skald::tools
