// Forms and queries, as browsers send them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace skald::console {

using fields = std::multimap<std::string, std::string>;

/// Of "name=value&...", with + as a space. Nothing if an escape is broken.
std::optional<fields> parse_form(std::string_view encoded);

}  // namespace skald::console
