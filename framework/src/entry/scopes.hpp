// Which scope functions read the request and nothing else, so that the thread that serves all sockets may call them.
#pragma once

#include <skald/http_handler.hpp>

#include <functional>
#include <string>

namespace skald::entry_detail {

/// What scope_from_header() and the table of scope_from_bearer() return.
struct scope_from_request
{
    std::function<std::string(http::request const&)> read;
    std::string operator()(http::request const& r) const { return read(r); }
};

inline bool is_scope_from_request(http::scope_function const& scope_of)
{
    return scope_of.target<scope_from_request>() != nullptr;
}

}  // namespace skald::entry_detail
