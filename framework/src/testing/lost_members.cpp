#include "testing/lost_members.hpp"

#include "runtime/upcasting.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <exception>
#include <optional>

namespace skald::testing::inner {
namespace {

using nlohmann::json;

// Null for what there is no other value of.
json another_value(json const& value)
{
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_string()) return value.get<std::string>() + '7';
    if (value.is_number_float()) return value.get<double>() + 1;
    if (value.is_number_unsigned()) return value.get<std::uint64_t>() ^ 1U;
    if (value.is_number()) return value.get<std::int64_t>() ^ 1;
    return nullptr;
}

// An upcast that refuses another value has looked at it.
bool makes_a_difference(runtime::step_message const& m, json const& altered, json const& made)
try {
    auto const other = runtime::upcast(m, altered.dump());
    return !other || json::parse(*other) != made;
}
catch (std::exception const&) {
    return true;
}

// NLOHMANN_JSON_SERIALIZE_ENUM reads whatever it does not know as its first value, and a number as well, which no text
// does: of such a member nobody here knows another value.
bool may_be_of_enum(runtime::step_message const& m, json data, json::json_pointer const& at, json const& made)
{
    if (!data[at].is_string()) return false;
    data[at] = 7;
    return !makes_a_difference(m, data, made);
}

}  // namespace

std::vector<std::string> lost_members(runtime::registry const& steps, scenario const& what, std::string_view step)
{
    runtime::step_message m;
    m.envelope.version = what.version;
    m.hosted = steps.find(what.definition, step, what.version);
    std::vector<std::string> lost;
    auto const read = m.hosted == nullptr ? std::nullopt : runtime::upcast(m, what.data);
    if (!read) return lost;
    auto const data = json::parse(what.data);
    auto const made = json::parse(*read);
    auto const members = data.flatten();
    for (auto const& [pointer, value] : members.items()) {
        auto const other = another_value(value);
        if (other.is_null()) continue;
        json::json_pointer const at{pointer};
        auto altered = data;
        altered[at] = other;
        if (!makes_a_difference(m, altered, made) && !may_be_of_enum(m, data, at, made)) lost.push_back(pointer);
    }
    return lost;
}

}  // namespace skald::testing::inner
