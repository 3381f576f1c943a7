#include "admin/commands.hpp"

#include "core/failpoint.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

namespace skald::admin {
namespace {

// One transaction, since one text is. A lane's connection writes only where that is stated.
template <class Statement>
nlohmann::json answer_to(postgres::connection& c, Statement const& statement)
{
    auto const rows = c.run("SET TRANSACTION READ WRITE;" + postgres::execute(statement));
    return nlohmann::json::parse(rows[0]["answer"].c_str());
}

}  // namespace

nlohmann::json issue(postgres::connection& c, command const& what)
{
    SKALD_FAILPOINT("command.requesting");
    auto answer = answer_to(c, queries::request_control{.action = what.action,
                                                        .scope = what.saga.scope,
                                                        .key = what.saga.key,
                                                        .reason = what.reason,
                                                        .requested_by = what.by});
    SKALD_FAILPOINT("command.requested");
    return answer;
}

std::string not_started_here(postgres::connection& c, core::saga_id const& saga)
{
    return c.run(postgres::execute(queries::not_started_here{.scope = saga.scope, .key = saga.key}))[0]["why"].c_str();
}

nlohmann::json close(postgres::connection& c, std::string const& as_status, command const& what, bool even_with_calls)
{
    return answer_to(c, queries::close_saga{.status = as_status,
                                            .scope = what.saga.scope,
                                            .key = what.saga.key,
                                            .reason = what.reason,
                                            .requested_by = what.by,
                                            .even_with_calls = even_with_calls});
}

}  // namespace skald::admin
