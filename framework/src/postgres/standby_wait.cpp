#include "postgres/standby_wait.hpp"

#include "postgres/literal.hpp"
#include "skald_queries.hpp"
#include "skald_session_queries.hpp"

#include <pqxx/except>

#include <utility>

namespace skald::postgres {

void standby_wait::run(connection& c)
{
    run(c, "BEGIN READ WRITE;" + execute("wait_for_standbys") + "COMMIT");
}

void standby_wait::run(connection& c, std::string const& text)
{
    // A pooler of sessions has told the client another number.
    if (backend_ == 0) backend_ = c.run(std::string{session_queries::backend})[0][0].as<int>();
    try {
        c.run(text);
    }
    catch (pqxx::broken_connection const&) {
        was_cut_ = true;
        throw;
    }
}

void standby_wait::end_left_behind(connection& c)
try {
    auto const left = std::exchange(backend_, 0);
    // Not every user of connections prepares the statements.
    if (std::exchange(was_cut_, false)) c.run(filled_in(queries::end_wait_for_standbys{.backend = left}));
}
catch (pqxx::sql_error const&) {  // the right to run pg_cancel_backend(), for one, can be revoked
}

}  // namespace skald::postgres
