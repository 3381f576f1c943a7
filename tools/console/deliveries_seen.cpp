#include "deliveries_seen.hpp"

#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <pqxx/pqxx>

namespace skald::console {

std::optional<std::map<std::string, std::int64_t>> deliveries_seen(postgres::connection& c, core::saga_id const& id,
                                                                   std::string const& home)
{
    if (!c.run(std::string{queries::counts_deliveries})[0][0].as<bool>()) return std::nullopt;
    std::map<std::string, std::int64_t> counted;
    for (auto const& row :
         c.run(postgres::filled_in(queries::deliveries_of_saga{.scope = id.scope, .key = id.key, .home = home})))
        counted[row["step"].c_str()] = row["delivered"].as<std::int64_t>();
    return counted;
}

}  // namespace skald::console
