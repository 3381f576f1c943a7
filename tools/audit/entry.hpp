// What one of two sides has under a key.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace skald::audit {

struct entry
{
    std::string key;
    std::vector<std::optional<std::string>> values;  // of the compared members, in their order; nothing: it has none
    bool operator==(entry const&) const = default;
};

}  // namespace skald::audit
