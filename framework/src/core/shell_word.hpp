// What an operator pastes into a shell.
#pragma once

#include "core/identity.hpp"

#include <string>
#include <string_view>

namespace skald::core {

/// Quoted if a shell would not take it for one word.
std::string shell_word(std::string const& text);

/// `skald saga VERB KEY WORDS --scope SCOPE`: words that are no options come first. A key that begins with `-` is not
/// taken for an option.
std::string saga_command(std::string_view verb, saga_id const& id, std::string_view words = {});

}  // namespace skald::core
