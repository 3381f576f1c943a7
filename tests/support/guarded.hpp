// A request given to the guard of the entry, without a server and without a table of routes.
#pragma once

#include "entry/request_guard.hpp"

#include <skald/http.hpp>

#include <string>
#include <utility>
#include <variant>

namespace skald::test {

/// What the entry of a process answers that knows `known`: from memory, or else by `guard`.
inline http::response respond_by(entry_detail::request_guard& guard, entry_detail::known_requests& known,
                                 http::request const& r, entry_detail::route const& by, std::string scope = {})
{
    auto const found = entry_detail::destination_of(r, by, std::move(scope));
    if (auto const* refusal = std::get_if<http::response>(&found)) return *refusal;
    entry_detail::guarded_request const guarded{r, std::get<entry_detail::destination>(found)};
    if (auto made = entry_detail::find_known(known, guarded)) return std::move(made->answer);
    return guard.respond(guarded, {}).answer;
}

}  // namespace skald::test
