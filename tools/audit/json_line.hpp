// One line of a listing: the members of an object that are single values. Numbers keep the digits with which they were
// written: as doubles, two amounts that differ could be equal.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace skald::audit {

struct json_line
{
    std::map<std::string, std::optional<std::string>> members;  // as text; nothing: null
    std::set<std::string> nested;                               // members that are objects or arrays
    std::string wrong;                                          // why it is no such object; empty if it is one
};

json_line read_json_line(std::string_view line);

}  // namespace skald::audit
