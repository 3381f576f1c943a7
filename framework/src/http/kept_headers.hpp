// What a stored answer keeps of its headers. Cookies and the like belong to one connection, not to the outcome.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <skald/http.hpp>

#include "http/chars.hpp"

namespace skald::http {

inline constexpr std::array<std::string_view, 6> kept_headers{"location",         "link",          "etag",
                                                              "content-language", "last-modified", "retry-after"};

inline void drop_other_headers(response& answer)
{
    std::erase_if(answer.headers, [](auto const& header) {
        return std::ranges::none_of(kept_headers,
                                    [&](std::string_view kept) { return equal_ignoring_case(header.first, kept); });
    });
}

}  // namespace skald::http
