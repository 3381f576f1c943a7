// A body with what a step does to the part of it that its type knows.
#pragma once

#include <skald/detail/data.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <string>

namespace skald::test {

using nlohmann::json;

// What a step that does `change` to what its type knows makes of the body.
template <class Data>
std::string changed(std::string const& body, std::function<void(Data&)> const& change)
{
    detail::received_data came;
    auto data = detail::read_data<Data>(body, came);
    change(data);
    auto const written = detail::write_data(data, came);
    // What is kept beside the text is what the text says, and nothing has changed since.
    REQUIRE(detail::is_same(came.whole, detail::parse_checked(written)));
    REQUIRE(detail::write_data(data, came) == written);
    return written;
}

// Names that begin with a u are nobody's.
inline bool is_unknown(std::string const& name)
{
    return name.starts_with('u');
}

inline json known_part(json const& value)
{
    if (!value.is_structured()) return value;
    json known = value.is_object() ? json::object() : json::array();
    for (auto const& [name, inner] : value.items())
        if (value.is_array()) known.push_back(known_part(inner));
        else if (!is_unknown(name)) known[name] = known_part(inner);
    return known;
}

// Knows all of a document but those.
struct any_data
{
    json known;
};
inline void from_json(json const& j, any_data& d)
{
    d.known = known_part(j);
}
inline void to_json(json& j, any_data const& d)
{
    j = d.known;
}

}  // namespace skald::test
