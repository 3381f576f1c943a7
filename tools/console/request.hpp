// A request and its response, without the HTTP library: what the pages and the rules of access are tested with.
#pragma once

#include "form.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace skald::console {

struct request
{
    std::string method;
    std::string path;
    fields query{};
    fields form{};
    std::function<std::string(std::string const& name)> header{[](std::string const&) { return std::string{}; }};
    std::string peer{};      // the address that sent it
    bool is_readable{true};  // false: an escape in the query, or in the form, is broken

    std::string asked(std::string const& name) const { return first(query, name); }
    std::string filled_in(std::string const& name) const { return first(form, name); }

private:
    static std::string first(fields const& all, std::string const& name)
    {
        auto const it = all.find(name);
        return it == all.end() ? std::string{} : it->second;
    }
};

struct response
{
    int status{200};
    std::string body{};
    std::string content_type{"text/html; charset=utf-8"};
    std::vector<std::pair<std::string, std::string>> headers{};
};

}  // namespace skald::console
