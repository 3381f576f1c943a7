// One line of a listing: an object whose members are single values. Numbers keep the digits with which they were
// written: as doubles, two amounts that differ could be equal.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace skald::audit {

struct json_line
{
    std::map<std::string, std::optional<std::string>> members;  // as text; nothing: null
    std::string wrong;                                          // why it is no such object; empty if it is one
};

json_line read_json_line(std::string_view line);

}  // namespace skald::audit
