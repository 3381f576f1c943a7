// A service of a test whose steps are rehearsed, and its tables before and after.
#pragma once

#include "support/database.hpp"
#include "worker/rehearsal_command.hpp"

#include <skald/skald.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace skald::test {

/// As `SERVICE --rehearse KEY:STEP` does it.
inline nlohmann::json rehearse(service& of, std::string const& url, std::string const& key,
                               std::string const& scope = {}, std::optional<std::string> data = {},
                               config settings = {})
{
    settings.database_url = url;
    return worker_detail::rehearse({core::parse_derived_key(key).value(), scope, std::move(data)}, of, settings);
}

inline bool says(nlohmann::json const& report, std::string const& part)
{
    return report.dump().find(part) != std::string::npos;
}

/// Every row of every table, where it is and which transaction wrote it: the same only if nothing was written at all.
inline std::string every_row(database const& in)
{
    std::istringstream tables{in.rows("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
                                      "WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1")};
    std::string all;
    for (std::string name; std::getline(tables, name);)
        all += name + ' ' +
               in.one("SELECT count(*) || ' ' || md5(coalesce(string_agg(concat(t.ctid, t.xmin, t::text), ',' "
                      "ORDER BY t.ctid), '')) FROM " +
                      name + " t") +
               '\n';
    return all;
}

/// The same database for another role.
inline std::string as_role(std::string url, std::string const& role)
{
    auto const user = url.find("://") + 3;
    return url.replace(user, url.find_first_of(":@", user) - user, role);
}

/// The entry of a table in a report; null if it is not there.
inline nlohmann::json table_of(nlohmann::json const& report, std::string const& name)
{
    for (auto const& one : report["tables"])
        if (one["table"] == name) return one;
    return nullptr;
}

}  // namespace skald::test
