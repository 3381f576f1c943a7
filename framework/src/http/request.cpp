#include <skald/http.hpp>

#include "http/chars.hpp"

namespace skald::http {

std::string_view request::header(std::string_view name) const
{
    for (auto const& [field, value] : headers)
        if (equal_ignoring_case(field, name)) return value;
    return {};
}

}  // namespace skald::http
