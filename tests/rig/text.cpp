#include "rig/text.hpp"

#include <fmt/format.h>

namespace skald::rig {

std::string grouped(std::int64_t number)
{
    std::string const digits = std::to_string(number);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        bool const group_begins = (digits.size() - i) % 3 == 0 && i > 0 && digits[i - 1] != '-';
        if (group_begins) text += ',';
        text += digits[i];
    }
    return text;
}

std::string money(std::int64_t cents)
{
    auto const positive = cents < 0 ? -cents : cents;
    return fmt::format("{}{}.{:02}", cents < 0 ? "-" : "", grouped(positive / 100), positive % 100);
}

std::string minutes(std::chrono::steady_clock::duration length)
{
    auto const seconds = std::chrono::floor<std::chrono::seconds>(length).count();
    return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

}  // namespace skald::rig
