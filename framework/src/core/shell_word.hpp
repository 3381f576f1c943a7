// What an operator pastes into a shell.
#pragma once

#include <string>

namespace skald::core {

/// Quoted if a shell would not take it for one word.
std::string shell_word(std::string const& text);

}  // namespace skald::core
