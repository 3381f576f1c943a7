#include "core/shell_word.hpp"

namespace skald::core {

std::string shell_word(std::string const& text)
{
    constexpr auto plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@/+=";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string quoted{"'"};
    for (char const c : text) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return quoted + "'";
}

}  // namespace skald::core
