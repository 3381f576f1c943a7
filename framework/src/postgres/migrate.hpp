// Numbered, checksummed migrations, forward only, applied by one process at a time.
#pragma once

#include <pqxx/connection>
#include <pqxx/result>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::postgres {

/// Another session holds a lock that a migration needs, and did not let go within 2 s. Nothing waits for it any more,
/// so that whoever only reads and writes does not queue up behind the migration; what was applied before is. Try again.
struct migration_blocked : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

struct migration
{
    std::string name;  // its order among those of one owner: "0001_tables"
    std::string sql;
};

/// Brings the database up to date: Skald's own migrations first (owner `skald`), then those of `service`, if one is
/// named, which owns the database from then on. Each runs in a transaction of its own, together
/// with the note that it ran.
/// Returns what was applied, as "owner/name".
/// Throws migration_blocked; what pqxx throws; configuration_error where an applied migration has another text now,
/// where the database belongs to another service or is a copy (then nothing of this one's is applied), or where it is
/// reached through a pooler that hands its sessions out by transaction (then nothing at all).
std::vector<std::string> migrate(std::string const& url, std::string const& service = {},
                                 std::vector<migration> const& migrations = {});

/// Lets `role`, which owns nothing, do what workers and operators' commands do in the schema `skald`. Of every
/// migration anew: call it after migrate(), as the role that migrates. Throws configuration_error where there is no
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

/// The service that owns a database, empty where none does; what tells this database from all others; and whether it
/// is a copy of that one.
struct ownership
{
    std::string service;
    std::string database;
    bool is_copy{};
};

ownership owner_of(pqxx::connection& c);

/// A copy of the service's database, or one that was restored, is its database from now on: somebody has looked. Throws
/// configuration_error where it is another service's, or nobody's.
void adopt(std::string const& url, std::string const& service);

/// Notes that `service` owns the database, and returns what tells this one from all others. Throws configuration_error
/// where another service owns it, where it is a copy of what it owns, where it has not been migrated, or is reached
/// through such a pooler.
std::string own_database(std::string const& url, std::string const& service);

}  // namespace skald::postgres
