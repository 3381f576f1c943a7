#include "doctor_database.hpp"
#include "postgres/literal.hpp"
#include "postgres/migrate.hpp"
#include "postgres/written_functions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::tools {
namespace {

// What differs in one function of the schema, given all that the migrations write under its name; empty if nothing.
std::string difference(pqxx::row const& found, std::vector<postgres::written_function> const& written)
{
    std::string const name = found["name"].c_str(), body = found["body"].c_str(), settings = found["settings"].c_str();
    bool is_known{}, has_body{};
    for (auto const& one : written) {
        if (one.name != name) continue;
        is_known = true;
        if (one.body != body) continue;
        has_body = true;
        if (one.settings == settings)
            return found["is_security_definer"].as<bool>() ? "runs with its owner's rights" : "";
    }
    if (!is_known) return "is not Skald's";
    return has_body ? "has other settings" : "has another body";
}

std::string differences_in_functions(pqxx::connection& c)
{
    auto const written = postgres::written_functions();
    auto const rows = run(c, q::doctor_functions);
    std::string wrong;
    auto const add_one = [&](std::string const& one) { wrong += (wrong.empty() ? "" : "; ") + one; };
    for (auto const& row : rows)
        if (auto const what = difference(row, written); !what.empty())
            add_one(fmt::format("{} {}", row["signature"].c_str(), what));
    for (auto const& one : written) {
        bool const is_there =
            std::ranges::any_of(rows, [&](auto const& row) { return one.name == row["name"].c_str(); });
        if (!is_there) add_one("skald." + one.name + " is missing");
    }
    return wrong;
}

// Each fault reaches a worker as an error or, worse, goes unnoticed. One line reports them for all tables, one for all
// functions. What a newer Skald has added, or written otherwise, is not known here.
void examine_shape(pqxx::connection& c, bool is_newer, findings& found)
{
    std::string wrong;
    for (auto const& row : run(c, q::doctor_tables))
        if (!is_newer || !row["is_addition"].as<bool>())
            wrong +=
                fmt::format("{}skald.{} {}", wrong.empty() ? "" : "; ", row["relname"].c_str(), row["what"].c_str());
    add(found, "schema", wrong.empty(), health::problem,
        wrong.empty() ? "Skald's tables are as its migrations made them" : wrong,
        "undo it as the owner of the schema: drop triggers, rules, policies and constraints of your own, SET LOGGED "
        "what is UNLOGGED, REINDEX what is not valid, and restore what is gone or changed (sql/migrations/ has each)");

    auto const functions = is_newer ? std::string{} : differences_in_functions(c);
    add(found, "functions", functions.empty(), health::problem,
        !functions.empty() ? functions
        : is_newer         ? "not compared: a newer Skald has migrated this database"
                           : "Skald's functions are as its migrations made them",
        "as the owner of the schema, run their CREATE FUNCTION of sql/migrations/ again with OR REPLACE, and drop "
        "those "
        "that are not Skald's");
}

}  // namespace

bool examine_schema(pqxx::connection& c, findings& found)
{
    bool is_there = true, is_current = true, is_newer = false;
    examine_part(c, found, "schema", [&] { is_there = run(c, q::doctor_schema)[0]["is_there"].as<bool>(); });
    if (!is_there) {
        auto const others = postgres::others_in_schema(c);
        found.push_back(
            {"migrations", health::problem,
             fmt::format("the database {} is none of Skald's: it has {}", postgres::place_of(c),
                         others.empty() ? "no schema `skald`" : "a schema `skald` of somebody else's, with " + others),
             others.empty() ? "correct DATABASE_URL, or, if it is right, run `skald migrate --service NAME`"
                            : "correct DATABASE_URL: Skald needs a database in which that schema is its own"});
        return false;
    }
    examine_part(c, found, "migrations", [&] {
        auto const state = postgres::compare_migrations(run(c, q::doctor_migrations));
        add(found, "migrations", state.changed.empty() && state.missing.empty(), health::problem,
            !state.changed.empty()   ? "applied with another text: " + state.changed
            : !state.missing.empty() ? "not applied: " + state.missing
            : state.newer.empty()    ? "up to date"
                                     : "up to date, and a newer Skald has added " + state.newer,
            state.changed.empty() ? "run `skald migrate`"
                                  : "find out which build made this database: applied migrations never change");
        is_current = state.missing.empty();
        is_newer = !state.newer.empty();
    });
    if (is_current) examine_part(c, found, "schema", [&] { examine_shape(c, is_newer, found); });
    return is_current;
}

// A problem if it is a worker's: its deliveries fail and come again for ever. None where a role only looks.
void examine_privileges(pqxx::connection& c, std::string_view service, findings& found)
{
    auto const rows = run(c, postgres::filled_in(q::doctor_privileges{.service = service}));
    if (rows.empty()) found.push_back({"privileges", health::ok, "this role may do what a worker has to", ""});
    for (auto const& row : rows) {
        std::string const role = row["role"].c_str();
        bool const works = row["works"].as<bool>();
        found.push_back(
            {"privileges", works ? health::problem : health::warning,
             fmt::format("the role {}{} lacks {}", role,
                         works ? fmt::format(", as which {} is connected,", service) : "", row["lacks"].c_str()),
             fmt::format("{}run `skald migrate --grant {}` as the owner of the schema",
                         works ? "" : "if a worker connects as it, ", role)});
    }
}

}  // namespace skald::tools
