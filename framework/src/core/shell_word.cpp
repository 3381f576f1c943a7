#include "core/shell_word.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::core {

std::string shell_word(std::string const& text)
{
    constexpr auto plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@/+=";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string quoted{"'"};
    for (char const c : text) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return quoted + "'";
}

std::string saga_command(std::string_view verb, saga_id const& id, std::string_view words)
{
    auto const options_at = std::min(words.find(" --"), words.size());
    auto const plain = words.empty() ? "" : ' ' + std::string{words.substr(0, options_at)};
    auto const options =
        std::string{words.substr(options_at)} + (id.scope.empty() ? "" : " --scope " + shell_word(id.scope));
    if (id.key.starts_with('-'))
        return fmt::format("skald saga {}{} -- {}{}", verb, options, shell_word(id.key), plain);
    return fmt::format("skald saga {} {}{}{}", verb, shell_word(id.key), plain, options);
}

}  // namespace skald::core
