#include "settings.hpp"

#include "core/regular_file.hpp"
#include "http/listen_address.hpp"
#include "postgres/conninfo.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace skald::console {
namespace {

bool is_loopback(std::string const& host)
{
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_name_of_service(std::string const& name)
{
    return !name.empty() && name.size() <= 48 &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

bool is_among(std::vector<service_address> const& all, std::string const& service)
{
    return std::ranges::any_of(all, [&](auto const& one) { return one.service == service; });
}

void check_names(std::vector<service_address> const& all, std::string_view option)
{
    for (auto one = all.begin(); one != all.end(); ++one)
        if (std::any_of(all.begin(), one, [&](auto const& other) { return other.service == one->service; }))
            throw configuration_error{fmt::format("{} names {} twice", option, one->service)};
}

}  // namespace

service_address read_address(std::string const& option, std::string const& name_and_file)
{
    auto const equals = name_and_file.find('=');
    auto const name = name_and_file.substr(0, equals);
    if (equals == std::string::npos || !is_name_of_service(name))
        throw configuration_error{fmt::format("{} takes NAME=FILE: a service, and a file that holds the address of its "
                                              "database",
                                              option)};
    auto const file = name_and_file.substr(equals + 1);
    try {
        auto url = core::read_regular_file(file);
        url.erase(std::min(url.find_last_not_of(" \t\r\n") + 1, url.size()));
        if (url.empty()) throw configuration_error{fmt::format("{} {}: {} is empty", option, name, file)};
        postgres::check_settings(url, fmt::format("{} {}: the address in {}", option, name, file));
        return {name, url};
    }
    catch (core::file_not_read const& error) {
        throw configuration_error{fmt::format("{} {}: {} {}", option, name, file, error.what())};
    }
}

void check(settings const& given)
{
    if (given.services.empty())
        throw configuration_error{"name at least one service: --service NAME=FILE, where FILE holds the address of its "
                                  "database"};
    check_names(given.services, "--service");
    check_names(given.operating, "--operate");
    for (auto const& one : given.operating)
        if (!is_among(given.services, one.service))
            throw configuration_error{fmt::format("--operate {0} needs --service {0} as well: pages are read with a "
                                                  "role that can't change anything",
                                                  one.service)};
    if (!given.tokens.empty() && !given.user_header.empty())
        throw configuration_error{"--token-file and --user-header exclude each other: only one can say who is there"};
    if (!given.operators.empty() && given.user_header.empty())
        throw configuration_error{"--operator names users of --user-header; a token file says it in its own lines"};
    try {
        auto const at = http::parse_listen_address(given.listen, "--listen");
        if (!is_loopback(at.host) && given.tokens.empty() && given.user_header.empty())
            throw configuration_error{fmt::format(
                "--listen {}: others could reach it there, and nothing says who they are. Give --token-file FILE, or "
                "--user-header NAME behind a proxy that sets it, or listen on 127.0.0.1",
                given.listen)};
    }
    catch (std::runtime_error const& error) {
        throw configuration_error{error.what()};
    }
}

}  // namespace skald::console
