#include "postgres/migrate.hpp"

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/faults.hpp"
#include "postgres/literal.hpp"
#include "postgres/pooler.hpp"
#include "skald_migrate_queries.hpp"
#include "skald_migrations.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <map>

namespace skald::postgres {
namespace {

std::map<std::string, std::string> applied(pqxx::connection& c, std::string const& owner)
{
    pqxx::nontransaction tx{c};
    std::map<std::string, std::string> checksums;
    for (auto const& row : run_in(tx, migrate_queries::applied_migrations{.owner = owner}))
        checksums.emplace(row["name"].c_str(), row["checksum"].c_str());
    return checksums;
}

configuration_error another_text(std::string const& names)
{
    return configuration_error{"migration " + names +
                               " was applied with another text; applied migrations never change: add a new one"};
}

bool is_not_allowed(pqxx::sql_error const& error)
{
    return dynamic_cast<pqxx::insufficient_privilege const*>(&error) != nullptr;  // whose sqlstate() is empty
}

constexpr char const* not_allowed =
    "; migrate as the owner of the schema, with `--migrate only`, grant this role what it needs with `skald migrate "
    "--grant ROLE`, and run the service with SKALD_MIGRATE=off";

void apply(pqxx::connection& c, std::string const& owner, migration const& m, std::string const& checksum)
try {
    pqxx::work tx{c};
    tx.exec(m.sql);
    run_in(tx, migrate_queries::record_migration{.owner = owner, .migration = m.name, .checksum = checksum});
    tx.commit();
}
catch (pqxx::sql_error const& error) {
    if (says_blocked()) throw;
    auto const failed = fmt::format("the migration {}/{} failed, and nothing of it remains: {}", owner, m.name,
                                    core::in_one_line(error.what()));
    if (may_pass()) throw migration_blocked{failed};
    throw configuration_error{failed + (is_not_allowed(error) ? not_allowed : "")};
}

constexpr char const* says_copy =
    "this database of the service {0} is a copy, or was restored from a backup: what was done since that was made is "
    "not "
    "in it, and may be done again. See docs/repair.md, \"A database from a backup\"; then run `skald migrate --service "
    "{0} --adopt`";

ownership read_owner(pqxx::row const& row)
{
    return {.service = row["name"].c_str(),
            .database = row["id"].c_str(),
            .identity = row["identity"].c_str(),
            .is_copy = row["is_copy"].as<bool>(),
            .forgot_before = row["forgot_before"].is_null()
                                 ? std::nullopt
                                 : std::optional{std::chrono::sys_seconds{
                                       std::chrono::seconds{row["forgot_before"].as<std::int64_t>()}}}};
}

// As with a role that is called skald, since search_path begins with "$user".
void refuse_skald_as_own_schema(pqxx::nontransaction& tx)
{
    auto const found = tx.exec(std::string{migrate_queries::own_schema})[0];
    if (!found["is_of_skald"].as<bool>()) return;
    std::string const role = found["role"].c_str();
    throw configuration_error{fmt::format(
        "the service's own tables would be created in the schema skald, among Skald's, for that is what the "
        "search_path of the role {0} begins with: use a role of another name, or ALTER ROLE {0} SET "
        "search_path = public",
        role)};
}

[[noreturn]] void refuse_as_others(pqxx::connection& c, std::string const& owner, std::string const& service)
{
    throw configuration_error{
        fmt::format("the database {} belongs to the service {}: each service needs one of its own, and this is {}",
                    place_of(c), owner, service)};
}

// Before anything is changed in it.
void refuse_if_of_others(pqxx::connection& c, std::string const& service)
{
    auto const owner = service.empty() ? std::string{} : owner_name(c);
    if (!owner.empty() && owner != service) refuse_as_others(c, owner, service);
}

ownership own(pqxx::connection& c, std::string const& service)
{
    pqxx::nontransaction tx{c};
    run_in(tx, migrate_queries::own_database{.service = service});
    auto owner = read_owner(tx.exec(std::string{migrate_queries::owner_of_database})[0]);
    if (owner.service != service) refuse_as_others(c, owner.service, service);
    if (owner.is_copy) throw configuration_error{fmt::format(says_copy, service)};
    refuse_skald_as_own_schema(tx);
    return owner;
}

// Several services and replicas may start at once. The lock ends with the connection.
void lock_migrations(pqxx::connection& c)
try {
    pqxx::nontransaction{c}.exec(std::string{migrate_queries::lock_migrations});
}
catch (std::exception const&) {
    if (!says_blocked()) throw;
    throw migration_blocked{"another process migrates this database"};
}

void bring_up_to_date(pqxx::connection& c, std::string const& owner, std::vector<migration> migrations,
                      std::vector<std::string>& done)
{
    std::ranges::sort(migrations, {}, &migration::name);
    auto const before = applied(c, owner);
    for (auto const& m : migrations) {
        auto const checksum = core::to_hex(core::fingerprint_of(m.sql));
        auto const it = before.find(m.name);
        if (it == before.end()) {
            // Skald's own are numbered by Skald.
            if (owner != "skald" && !before.empty() && m.name < before.rbegin()->first)
                throw configuration_error{fmt::format(
                    "the migration {}/{} comes before {}, which is applied, so databases would differ in what ran "
                    "first: give it a name that sorts after that one",
                    owner, m.name, before.rbegin()->first)};
            apply(c, owner, m, checksum);
            done.push_back(owner + '/' + m.name);
        }
        else if (it->second != checksum) {
            throw another_text(owner + '/' + m.name);
        }
    }
}

configuration_error schema_of_others(pqxx::connection& c, std::string const& what)
{
    return configuration_error{
        fmt::format("the schema `skald` of the database {} is not Skald's: it has {}. Skald needs that schema for "
                    "itself: use another database, or give that schema another name",
                    place_of(c), what)};
}

void refuse_other_encoding(pqxx::connection& c)
{
    std::string const encoding = pqxx::nontransaction{c}.exec(std::string{migrate_queries::encoding})[0][0].c_str();
    if (encoding == "UTF8") return;
    throw configuration_error{
        fmt::format("the database {} has the encoding {}, and Skald needs UTF8: create it with TEMPLATE template0 "
                    "ENCODING 'UTF8'",
                    place_of(c), encoding)};
}

std::vector<migration> own_migrations()
{
    std::vector<migration> own;
    own.reserve(skald::migrations::all.size());
    for (auto const& [name, sql] : skald::migrations::all)
        own.push_back({std::string{name.substr(2)}, std::string{sql}});
    return own;
}

}  // namespace

std::string place_of(pqxx::connection& c)
{
    auto const* const host = c.hostname();
    return fmt::format("{} at {}:{}", c.dbname(), host != nullptr ? host : "localhost", c.port());
}

std::string owner_name(pqxx::connection& c)
{
    pqxx::nontransaction tx{c};
    if (!tx.exec(std::string{migrate_queries::is_migrated})[0]["is_migrated"].as<bool>()) return {};
    auto const rows = tx.exec(std::string{migrate_queries::name_of_owner});
    return rows.empty() ? std::string{} : rows[0]["name"].c_str();
}

std::string which_database(pqxx::connection& c)
{
    auto const owner = owner_name(c);
    return fmt::format("the database of {}, {}", owner.empty() ? "no service yet" : owner, place_of(c));
}

std::string others_in_schema(pqxx::connection& c)
{
    return pqxx::nontransaction{c}.exec(std::string{migrate_queries::others_in_schema})[0]["others"].c_str();
}

void refuse_without_schema(pqxx::connection& c)
{
    if (auto const others = others_in_schema(c); !others.empty()) throw schema_of_others(c, others);
    throw schema_missing{
        fmt::format("the database {} has no schema `skald`, or an old one: if DATABASE_URL is to name it, run `skald "
                    "migrate --service NAME`",
                    place_of(c))};
}

void require_owner(std::string const& url)
{
    auto const conninfo = with_defaults(url, "skald/migrate");
    pqxx::connection c{conninfo};
    refuse_transaction_pooler(c, conninfo);
    if (owner_name(c).empty())
        throw configuration_error{fmt::format(
            "no service owns the database {}: if DATABASE_URL is right, say which one will, with --service NAME",
            place_of(c))};
}

std::vector<std::string> migrate(std::string const& url, std::string const& service,
                                 std::vector<migration> const& migrations)
try {
    auto const conninfo = with_defaults(url, "skald/migrate");
    pqxx::connection c{conninfo};
    refuse_transaction_pooler(c, conninfo);  // or the lock would stay behind in another client's session
    refuse_other_encoding(c);
    pqxx::nontransaction{c}.exec(std::string{migrate_queries::wait_for_locks_briefly});
    lock_migrations(c);
    if (auto const others = others_in_schema(c); !others.empty()) throw schema_of_others(c, others);
    refuse_if_of_others(c, service);
    pqxx::nontransaction{c}.exec(std::string{migrate_queries::create_migration_table});
    std::vector<std::string> done;
    bring_up_to_date(c, "skald", own_migrations(), done);
    if (!service.empty()) {
        own(c, service);
        bring_up_to_date(c, service, migrations, done);
    }
    return done;
}
catch (pqxx::insufficient_privilege const& error) {
    throw configuration_error{"the database can't be migrated: " + core::in_one_line(error.what()) + not_allowed};
}
catch (std::exception const& error) {
    if (!says_blocked()) throw;
    throw migration_blocked{"another session holds a lock that the migration needs: " +
                            core::in_one_line(error.what())};
}

void grant(std::string const& url, std::string const& role)
try {
    pqxx::connection c{with_defaults(url, "skald/migrate")};
    pqxx::work tx{c};
    auto const statements = run_in(tx, migrate_queries::grants{.role = role});
    for (auto const& row : statements) tx.exec(row["statement"].c_str());
    tx.commit();
}
catch (pqxx::sql_error const& error) {
    if (error.sqlstate() != "42704") throw;
    throw configuration_error{"there is no role " + role + ": create it first (CREATE ROLE ... LOGIN)"};
}

migration_state compare_migrations(pqxx::result const& applied)
{
    std::map<std::string, std::string> before;
    for (auto const& row : applied) before.emplace(row["name"].c_str(), row["checksum"].c_str());
    migration_state state;
    auto const add = [](std::string& names, std::string const& name) { names += (names.empty() ? "" : ", ") + name; };
    for (auto const& m : own_migrations()) {
        auto const it = before.find(m.name);
        if (it == before.end()) add(state.missing, m.name);
        else if (it->second != core::to_hex(core::fingerprint_of(m.sql))) add(state.changed, m.name);
        before.erase(m.name);
    }
    for (auto const& [name, checksum] : before) add(state.newer, name);
    return state;
}

void require_current_schema(pqxx::connection& c)
{
    pqxx::nontransaction tx{c};
    auto const state = compare_migrations(run_in(tx, migrate_queries::applied_migrations{.owner = "skald"}));
    if (!state.changed.empty()) throw another_text("skald/" + state.changed);
    if (state.missing.empty()) return;
    throw schema_behind{
        fmt::format("the schema of the database is of an older Skald: it lacks {}; run `skald migrate` of this version "
                    "as the owner of the schema, and `skald migrate --grant ROLE` for the role of the service",
                    state.missing)};
}

void require_schema(pqxx::connection& c)
{
    if (!pqxx::nontransaction{c}.exec(std::string{migrate_queries::is_migrated})[0]["is_migrated"].as<bool>())
        refuse_without_schema(c);
    require_current_schema(c);
}

ownership owner_of(pqxx::connection& c)
{
    auto const rows = pqxx::nontransaction{c}.exec(std::string{migrate_queries::owner_of_database});
    return rows.empty() ? ownership{} : read_owner(rows[0]);
}

void adopt(std::string const& url, std::string const& service)
{
    pqxx::connection c{with_defaults(url, "skald/migrate")};
    pqxx::work tx{c};
    if (run_in(tx, migrate_queries::adopt_database{.service = service}).affected_rows() == 0)
        throw configuration_error{"the service " + service + " owns no database here"};
    tx.commit();
}

ownership own_database(std::string const& url, std::string const& service)
{
    auto const conninfo = with_defaults(url, "skald/migrate");
    pqxx::connection c{conninfo};
    refuse_transaction_pooler(c, conninfo);
    pqxx::nontransaction{c}.exec(std::string{migrate_queries::wait_for_locks_briefly});
    require_schema(c);
    auto owned = own(c, service);
    owned.place = place_of(c);
    return owned;
}

void record_hosted(std::string const& url, std::vector<hosted_step_name> const& all,
                   std::vector<hosted_handler_name> const& handlers)
{
    std::vector<std::string> steps, names, bindings;
    std::vector<bool> take_signals;
    for (auto const& one : all) {
        steps.push_back(one.step);
        take_signals.push_back(one.takes_signals);
    }
    for (auto const& one : handlers) {
        names.push_back(one.handler);
        bindings.push_back(one.bindings);
    }
    pqxx::connection c{with_defaults(url, "skald/migrate")};
    pqxx::nontransaction{c}.exec(std::string{migrate_queries::wait_for_locks_briefly});
    pqxx::work tx{c};
    run_in(tx, migrate_queries::record_hosted{
                   .steps = steps, .take_signals = take_signals, .handlers = names, .bindings = bindings});
    tx.commit();
}

}  // namespace skald::postgres
