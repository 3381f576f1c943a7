#include "new_project.hpp"

#include "skald_new_templates.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string_view>

namespace skald::tools {
namespace {

using values = std::map<std::string, std::string, std::less<>>;

// A step is `reserve-in-` and its service, a definition the project and `-booking`: each has at most 48 characters.
constexpr std::size_t name_length_max = 36;
constexpr std::size_t services_max = 32;
constexpr std::array<std::string_view, 6> kept{"none", "postgres", "public", "skald", "template0", "template1"};

bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

bool is_word(char c)
{
    return is_lower(c) || (c >= '0' && c <= '9');
}

void check_name(std::string_view what, std::string_view name)
{
    bool const is_allowed = !name.empty() && name.size() <= name_length_max && is_lower(name.front()) &&
                            name.back() != '-' && name.find("--") == std::string_view::npos &&
                            std::ranges::all_of(name, [](char c) { return is_word(c) || c == '-'; });
    if (is_allowed) return;
    throw configuration_error{
        fmt::format("'{}' can't be the name of a {}: it is a lower-case letter, then lower-case letters, digits and "
                    "single dashes between them, at most {} in all",
                    name, what, name_length_max)};
}

// In C++, where a name has no dashes.
std::string identifier(std::string name)
{
    std::ranges::replace(name, '-', '_');
    return name;
}

// Replaces each {{name}} by its value. Other braces stay.
std::string filled(std::string_view text, values const& all)
{
    std::string done;
    while (!text.empty()) {
        auto const end =
            text.starts_with("{{") ? text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 2) : std::string_view::npos;
        if (end == std::string_view::npos || end == 2 || !text.substr(end).starts_with("}}")) {
            done += text.front();
            text.remove_prefix(1);
            continue;
        }
        auto const found = all.find(text.substr(2, end - 2));
        if (found == all.end()) throw std::logic_error{"a template has an unknown " + std::string{text.substr(0, end)}};
        done += found->second;
        text.remove_prefix(end + 2);
    }
    return done;
}

// {} of `form` is the service, {0} again; {1} is its identifier.
std::string for_each_service(new_project const& project, std::string_view form, std::string_view between = "")
{
    std::vector<std::string> all;
    all.reserve(project.services.size());
    for (auto const& service : project.services)
        all.push_back(fmt::format(fmt::runtime(form), service, identifier(service)));
    return fmt::format("{}", fmt::join(all, between));
}

std::string in_words(std::vector<std::string> const& services)
{
    if (services.size() == 1) return fmt::format("the service `{}`", services.front());
    auto const but_last = std::vector<std::string>{services.begin(), services.end() - 1};
    return fmt::format("the services `{}` and `{}`", fmt::join(but_last, "`, `"), services.back());
}

// As a shell starts the services but the first, a line each.
std::string run_others(new_project const& project)
{
    std::string text;
    for (auto const& service : project.services)
        if (service != project.services.front())
            text += fmt::format("DATABASE_URL=postgresql://{0}:{0}@127.0.0.1/{0} build/{0}_service &\n", service);
    return text;
}

// The declarations of the steps: all but the last service's can be taken back.
std::string steps_of(new_project const& project)
{
    std::string text;
    for (auto const& service : project.services) {
        auto const kind = service == project.services.back() ? "pivot" : "compensatable";
        text += fmt::format("inline constexpr skald::{0}<booking> reserve_in_{1}{{\"reserve-in-{2}\", \"{2}\"}};\n",
                            kind, identifier(service), service);
    }
    auto const& first = project.services.front();
    return text +
           fmt::format("inline constexpr skald::retriable<booking> confirm_in_{0}{{\"confirm-in-{1}\", \"{1}\"}};",
                       identifier(first), first);
}

std::string times(std::string_view text, std::size_t count)
{
    std::string all;
    while (count-- > 0) all += text;
    return all;
}

values values_of(new_project const& project)
{
    auto const& first = project.services.front();
    auto const& last = project.services.back();
    return {
        {"project", project.name},
        {"id", identifier(project.name)},
        {"space", identifier(project.name) + "_saga"},
        {"version", SKALD_VERSION},
        {"services", fmt::format("{}", fmt::join(project.services, " "))},
        {"services_in_words", in_words(project.services)},
        {"steps", steps_of(project)},
        {"order", for_each_service(project, "\n    steps::reserve_in_{1}", ",") + ",\n    steps::confirm_in_" +
                      identifier(first)},
        {"includes", for_each_service(project, "#include \"../src/services/{0}.hpp\"\n")},
        {"adds", for_each_service(project, ".add({1}_service)")},
        {"service_names", for_each_service(project, "\"{0}\"", ", ")},
        {"first", first},
        {"first_id", identifier(first)},
        {"last", last},
        {"all_three", times("3 ", project.services.size())},
        {"all_five", times("5 ", project.services.size())},
        {"databases",
         for_each_service(project, "CREATE ROLE \"{0}\" LOGIN PASSWORD '{0}';\nCREATE DATABASE \"{0}\" OWNER \"{0}\";",
                          "\n")},
        {"run_others", run_others(project)},
        {"stock", for_each_service(project,
                                   "until docker compose exec postgres psql -qU postgres {0} -c \"INSERT INTO stock "
                                   "VALUES ('tea', 5) ON CONFLICT DO NOTHING\"; do sleep 1; done",
                                   "\n")},
    };
}

// The header of one service.
std::string service_header(new_project const& project, std::string const& service, values all)
{
    bool const is_first = service == project.services.front(), is_last = service == project.services.back();
    all["service"] = service;
    all["service_id"] = identifier(service);
    auto classes = filled(is_last ? new_templates::pivot : new_templates::compensatable, all) + "\n";
    if (is_first) classes += "\n" + filled(new_templates::entry, all) + "\n";
    std::string const host = "\n        .host(book, steps::{0}_in_{1}, {0}_in_{1}{{}})";
    std::string hosts;
    if (is_first)
        hosts += "\n        // All clients that send none are one tenant here; your service should require it."
                 "\n        .scope(skald::http::scope_from_header(\"X-Scope\", skald::http::scope_header::optional))"
                 "\n        .post(\"/bookings\", place_booking)";
    hosts += fmt::format(fmt::runtime(host), "reserve", identifier(service));
    if (is_first) hosts += fmt::format(fmt::runtime(host), "confirm", identifier(service));
    all["classes"] = classes;
    all["hosts"] = hosts;
    all["and_requests"] = is_first ? ", and the requests that start a saga" : "";
    return filled(new_templates::service, all) + "\n";
}

}  // namespace

void check_names(new_project const& project)
{
    check_name("project", project.name);
    if (project.services.empty() || project.services.size() > services_max)
        throw configuration_error{
            fmt::format("--services names 1 to {} services, with commas between them", services_max)};
    for (auto const& service : project.services) {
        check_name("service", service);
        if (std::ranges::count(project.services, service) > 1)
            throw configuration_error{
                fmt::format("--services names '{}' twice: each has one step of the saga", service)};
        if (std::ranges::count(kept, service) > 0) {
            throw configuration_error{fmt::format("a service can't be called '{}': its database and role are called as "
                                                  "it is, and PostgreSQL or Skald keeps that name for itself",
                                                  service)};
        }
    }
}

std::vector<std::pair<std::filesystem::path, std::string>> files_of(new_project const& project)
{
    auto all = values_of(project);
    std::vector<std::pair<std::filesystem::path, std::string>> files;
    auto const add = [&](std::string const& path, std::string_view text) {
        files.emplace_back(path, filled(text, all) + "\n");
    };
    add("README.md", new_templates::readme);
    add("CMakeLists.txt", new_templates::cmake_lists);
    add(".gitignore", new_templates::gitignore);
    add("src/saga.hpp", new_templates::saga);
    for (auto const& service : project.services) {
        all["service"] = service;
        all["service_id"] = identifier(service);
        files.emplace_back("src/services/" + service + ".hpp", service_header(project, service, all));
        add("src/services/" + service + ".cpp", new_templates::program);
    }
    add("tests/saga_test.cpp", new_templates::saga_test);
    add("compose.yaml", new_templates::compose);
    add("databases.sql", new_templates::databases);
    add(".github/workflows/ci.yml", new_templates::workflow);
    return files;
}

}  // namespace skald::tools
