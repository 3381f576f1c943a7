#include "admin/commands.hpp"

#include "core/failpoint.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

namespace skald::admin {

nlohmann::json issue(postgres::connection& c, command const& what)
{
    using postgres::literal;
    SKALD_FAILPOINT("command.requesting");
    // One transaction, since one text is. A lane's connection writes only where that is stated.
    auto const rows =
        c.run("SET TRANSACTION READ WRITE;" +
              postgres::execute("request_control", {literal(what.action), literal(what.saga.scope),
                                                    literal(what.saga.key), literal(what.reason), literal(what.by)}));
    SKALD_FAILPOINT("command.requested");
    return nlohmann::json::parse(rows[0][0].c_str());
}

nlohmann::json close(postgres::connection& c, std::string const& as_status, command const& what)
{
    using postgres::literal;
    auto const rows =
        c.run("SET TRANSACTION READ WRITE;" +
              postgres::execute("close_saga", {literal(as_status), literal(what.saga.scope), literal(what.saga.key),
                                               literal(what.reason), literal(what.by)}));
    return nlohmann::json::parse(rows[0][0].c_str());
}

}  // namespace skald::admin
