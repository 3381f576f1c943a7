#include "audit/database.hpp"

#include "skald_audit_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

namespace skald::audit {
namespace {

// Sorting a table of hundreds of millions of rows takes its time, and holds nobody up.
constexpr std::chrono::minutes answer_within{60};

}  // namespace

postgres::connection_options options_for(std::string const& url)
{
    postgres::connection_options options;
    options.url = url;
    options.application_name = "skald/audit";
    options.statement_timeout = answer_within;
    options.idle_in_transaction_timeout = answer_within;
    return options;
}

void check_owner(postgres::connection& c, std::string const& service)
{
    auto const owner = c.run(std::string{queries::audit_service});
    auto const name = owner.empty() ? std::string{} : std::string{owner[0]["name"].c_str()};
    if (name != service)
        throw configuration_error{fmt::format("the address given for {} leads to a database {}", service,
                                              name.empty() ? "that no service owns yet" : "of " + name)};
}

}  // namespace skald::audit
