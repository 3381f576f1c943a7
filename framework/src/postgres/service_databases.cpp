#include "postgres/service_databases.hpp"

#include "core/regular_file.hpp"
#include "postgres/conninfo.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <set>
#include <sstream>

namespace skald::postgres {
namespace {

std::string trimmed(std::string const& text)
{
    auto const first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? std::string{} : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

}  // namespace

std::vector<service_database> read_service_databases(std::string const& file, std::string const& setting)
try {
    auto const named = setting + ' ' + file;
    std::vector<service_database> all;
    std::istringstream text{core::read_regular_file(file)};
    std::set<std::string> names;
    int number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        line = trimmed(line);
        if (line.empty() || line.starts_with('#')) continue;
        auto const equals = line.find('=');
        auto const name = trimmed(line.substr(0, equals));
        auto const url = equals == std::string::npos ? std::string{} : trimmed(line.substr(equals + 1));
        if (name.empty() || url.empty() ||
            name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos)
            throw configuration_error{
                fmt::format("{}: line {} is not SERVICE=URL, such as payments=postgresql://...", named, number)};
        if (!names.insert(name).second) throw configuration_error{fmt::format("{}: {} is there twice", named, name)};
        all.push_back({name, url});
        check_settings(all.back().url, fmt::format("{}: line {}", named, number));
    }
    if (all.empty()) throw configuration_error{fmt::format("{}: it names no service", named)};
    return all;
}
catch (core::file_not_read const& error) {
    throw configuration_error{fmt::format("{} {} {}", setting, file, error.what())};
}

}  // namespace skald::postgres
