// Numbers and times as people read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace skald::rig {

/// 1234567 -> "1,234,567"
std::string grouped(std::int64_t number);

/// Cents with two decimals: 123456 -> "1,234.56"
std::string money(std::int64_t cents);

/// "0:07", "12:34"
std::string minutes(std::chrono::steady_clock::duration length);

}  // namespace skald::rig
