// The SQL functions that Skald's migrations create, as their text has them: what a database is compared with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skald::postgres {

struct written_function
{
    std::string name;      // without its schema
    std::string body;      // as PostgreSQL keeps it, in pg_proc.prosrc
    std::string settings;  // as in pg_proc.proconfig: `name=value`, sorted, one a line
};

/// Every CREATE FUNCTION in a migration. Names may repeat: functions are overloaded, and later migrations replace some.
/// Throws std::logic_error if it has one that is written in another form than ours.
std::vector<written_function> functions_in(std::string_view migration);

/// Those of all of Skald's migrations.
std::vector<written_function> written_functions();

}  // namespace skald::postgres
