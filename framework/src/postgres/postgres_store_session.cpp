// What users' code may have left in the session, and when it goes (docs/adr/0025-a-session-is-set-right.md).
#include "core/assert.hpp"
#include "postgres/leftovers.hpp"
#include "postgres/postgres_store.hpp"
#include "skald_queries.hpp"
#include "skald_session_queries.hpp"

#include <pqxx/pqxx>

namespace skald::postgres {

// Undoes what a step may have left in the session.
std::string postgres_store::set_right() const
{
    return std::string{session_queries::reset_session} + settings_text(options_, false, role_);
}

// For who reads between two transactions: the next one would undo it too late.
connection& postgres_store::open_set_right()
{
    auto& c = open();
    SKALD_ASSERT(stage_ == stage::none);
    if (session_is_used_) c.run(set_right());
    session_is_used_ = false;
    return c;
}

// Whatever else a step has left in the session stays until the next transaction, which undoes it before its claim. Its
// locks do not: others wait for them.
std::string postgres_store::end_of_use()
{
    is_inspected_ = is_lent_ && (options_.inspects_every_session ||
                                 (!step_.empty() && options_.server->leftovers.wants_look(step_)));
    if (!is_lent_) return {};
    return ';' + (is_inspected_ ? execute(queries::inspect_session{.prepared_since = claimed_at_})
                                : execute("unlock_session"));
}

void postgres_store::record_leftovers(pqxx::result const& seen)
{
    if (!is_inspected_) return;
    auto const all = postgres::left_behind(first_, read_session(seen[0]["text"].c_str()));
    if (all.empty()) return;
    if (options_.inspects_every_session || options_.server->leftovers.is_news(step_, all)) left_ = in_words(all);
}

// It undoes what has set the session right in the transaction: that comes again behind it, and then no more.
void postgres_store::run_rollback()
{
    bool const sets_right = session_is_used_ && !is_lent_;
    // A warning, not an error, if the server has ended the transaction already.
    record_leftovers(connection_->run("ROLLBACK" + end_of_use() + (sets_right ? ';' + set_right() : "")));
    if (sets_right) session_is_used_ = false;
}

}  // namespace skald::postgres
