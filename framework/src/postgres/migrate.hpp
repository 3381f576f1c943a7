// Numbered, checksummed migrations, forward only, applied by one process at a time.
#pragma once

#include <skald/errors.hpp>

#include <pqxx/connection>
#include <pqxx/result>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::postgres {

/// Another session holds a lock that a migration needs, and did not release it within 2 s: the migration has stopped
/// waiting, so that readers and writers do not queue up behind it. Or the server has cut it short, for what may pass.
/// What was applied before stays. Try again.
struct migration_blocked : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The database lacks migrations of this build's own. Statements of the build need what they bring, so nothing of it
/// works there; what an older build needs is still there. Try again once it is migrated.
struct schema_behind : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The database has no tables of Skald's, and no schema of another application's in their place: it is a wrong one, or
/// nobody has migrated it yet.
struct schema_missing : configuration_error
{
    using configuration_error::configuration_error;
};

struct migration
{
    std::string name;  // sorts it among those of one owner: "0001_tables"
    std::string sql;
};

/// "hotels at 127.0.0.1:5432"
std::string place_of(pqxx::connection& c);

/// The service that owns the database; empty if none does, or there is no schema.
std::string owner_name(pqxx::connection& c);

/// For an operator who may have asked the wrong one: "the database of payments, pay at 127.0.0.1:5432".
std::string which_database(pqxx::connection& c);

/// The tables and views in a schema `skald` of another application; empty if there is none, or it is Skald's.
std::string others_in_schema(pqxx::connection& c);

/// Throws schema_missing; configuration_error if the schema `skald` is another application's. For a database without
/// Skald's tables.
[[noreturn]] void refuse_without_schema(pqxx::connection& c);

/// Throws configuration_error if no service owns the database, or it is reached through a pooler by transaction.
void require_owner(std::string const& url);

/// Brings the database up to date: Skald's own migrations first (owner `skald`), then those of `service`, if one is
/// named, which owns the database from then on. Each runs in a transaction of its own, together with the record that it
/// ran. Returns what was applied, as "owner/name".
/// Throws migration_blocked; what pqxx throws; configuration_error if an applied migration has another text now, if the
/// database is a copy (then none of this service's are applied), or if it belongs to another service or it is reached
/// through a pooler that hands out its sessions by transaction (then none at all).
std::vector<std::string> migrate(std::string const& url, std::string const& service = {},
                                 std::vector<migration> const& migrations = {});

/// Lets `role`, which owns nothing, do what workers and operators' commands do in the schema `skald`. Needed again
/// after every migration: call it after migrate(), as the role that migrates. Throws configuration_error if there is no
/// such role, and what pqxx throws.
void grant(std::string const& url, std::string const& role);

/// How the applied migrations of Skald's own compare with those of this build: names, joined by commas.
struct migration_state
{
    std::string missing;
    std::string changed;
    std::string newer;  // unknown here
};

/// `applied`: rows of name and checksum.
migration_state compare_migrations(pqxx::result const& applied);

/// Throws schema_behind; configuration_error if a migration was applied with another text. What a newer build has added
/// is no reason: migrations only add.
void require_current_schema(pqxx::connection& c);

/// The same; also configuration_error if there is no schema.
void require_schema(pqxx::connection& c);

/// The service that owns a database, empty if none does; the id that distinguishes this database from all others; what
/// tells it from a copy, for database_identity; and whether it is a copy of that one.
struct ownership
{
    std::string service;
    std::string database;
    std::string identity;
    bool is_copy{};
    std::string place{};                                      // "hotels at 127.0.0.1:5432", of own_database()
    std::optional<std::chrono::sys_seconds> forgot_before{};  // records of what ended before are gone, to the hour
};

ownership owner_of(pqxx::connection& c);

/// Declares a copy of the service's database, or a restored one, to be its database from now on: an operator has
/// checked it. Throws configuration_error if it is another service's, or none's.
void adopt(std::string const& url, std::string const& service);

/// Records that `service` owns the database, and returns what distinguishes this one from all others. Throws
/// configuration_error if another service owns it, if it is a copy of what it owns, if it has not been migrated, or if
/// it is reached through such a pooler; and what require_current_schema() throws.
ownership own_database(std::string const& url, std::string const& service);

/// A step that a process has, and whether it waits for a signal.
struct hosted_step_name
{
    std::string step;
    bool takes_signals{};
};

/// A message handler that a process has, and what its queue is to be bound to: JSON, as in skald.handler.
struct hosted_handler_name
{
    std::string handler;
    std::string bindings;
};

/// Records them in the service's database, so that a signal for a step that never waits is refused, whoever gives it,
/// and so that `skald doctor` knows which queues there should be.
void record_hosted(std::string const& url, std::vector<hosted_step_name> const& all,
                   std::vector<hosted_handler_name> const& handlers);

}  // namespace skald::postgres
