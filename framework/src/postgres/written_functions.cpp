#include "postgres/written_functions.hpp"

#include "skald_migrations.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace skald::postgres {
namespace {

constexpr std::string_view opens = "AS $$", closes = "$$";

// Between a function's name and its body: `SET name = value`, each on a line of its own.
std::string settings_in(std::string_view head)
{
    std::vector<std::string> all;
    std::istringstream lines{std::string{head}};
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("SET ")) continue;
        auto const equals = line.find(" = ");
        if (equals == std::string::npos) throw std::logic_error{"a setting without ` = `: " + line};
        all.push_back(line.substr(4, equals - 4) + '=' + line.substr(equals + 3));
    }
    std::ranges::sort(all);
    std::string text;
    for (auto const& one : all) text += (text.empty() ? "" : "\n") + one;
    return text;
}

}  // namespace

std::vector<written_function> functions_in(std::string_view migration)
{
    std::vector<written_function> all;
    for (std::size_t at = 0;;) {
        auto const found = std::min(migration.find("\nCREATE FUNCTION skald.", at),
                                    migration.find("\nCREATE OR REPLACE FUNCTION skald.", at));
        if (found == std::string_view::npos) return all;
        auto const name = migration.find("skald.", found) + 6;
        auto const parameters = migration.find('(', name);
        auto const body = migration.find(opens, parameters);
        auto const end = body == std::string_view::npos ? body : migration.find(closes, body + opens.size());
        if (end == std::string_view::npos)
            throw std::logic_error{"a function without a body between $$: " +
                                   std::string{migration.substr(name, parameters - name)}};
        all.push_back({std::string{migration.substr(name, parameters - name)},
                       std::string{migration.substr(body + opens.size(), end - body - opens.size())},
                       settings_in(migration.substr(parameters, body - parameters))});
        at = end + closes.size();
    }
}

std::vector<written_function> written_functions()
{
    std::vector<written_function> all;
    for (auto const& [name, sql] : migrations::all) std::ranges::move(functions_in(sql), std::back_inserter(all));
    return all;
}

}  // namespace skald::postgres
