#include "postgres/faults.hpp"

#include "core/text.hpp"

#include <fmt/format.h>
#include <pqxx/except>

#include <string_view>

namespace skald::postgres {
namespace {

using ports::fault;
using ports::fault_kind;

fault classify_state(std::string_view state, std::string const& what)
{
    // 57P0x: the server is shutting down, or has dropped us. No state at all: libpqxx reports some lost connections
    // that way (libpqxx #280).
    if (state.empty() || state.starts_with("57P0")) return {fault_kind::connection_lost, what};
    // 25006: a node that became read-only after a failover. 0A000: a table changed under a prepared statement, which a
    // new connection prepares again. 42P05: a step's PREPARE met one that another has left in the session. 53xxx,
    // 58030, XX000, 08xxx: the server has a problem. The step itself may cause any of them, so the tries are bounded.
    if (state.starts_with("08") || state.starts_with("53") || state == "25006" || state == "0A000" ||
        state == "42P05" || state == "58030" || state == "XX000")
        return {fault_kind::retry_at_once, what, true};
    // 40001, 40P01: serialization failure, deadlock. 55P03: lock_timeout, or NOWAIT.
    if (state.starts_with("40")) return {fault_kind::contended, what};
    if (state == "55P03") return {fault_kind::lock_timeout, what};
    if (state == "25P02")
        return {fault_kind::broken,
                "the step went on after an SQL error; let the exception pass, or use a SAVEPOINT (" + what + ")"};
    if (state == "26000")
        return {fault_kind::broken, "a prepared statement is gone: has the step run DEALLOCATE? (" + what + ")", true};
    // Raised by skald.assert_transaction().
    if (state == "2D000") return {fault_kind::transaction_ended, what};
    return {fault_kind::broken, what};
}

// libpqxx 6 leaves out that of a missing permission.
std::string state_of(pqxx::sql_error const& error)
{
    return dynamic_cast<pqxx::insufficient_privilege const*>(&error) != nullptr ? "42501" : error.sqlstate();
}

// Of the exception being handled; empty if it has none.
std::string current_state()
try {
    throw;
}
catch (pqxx::sql_error const& error) {
    return state_of(error);
}
catch (...) {
    return {};
}

// PostgreSQL's text. An operator reads it on one line, of a log or of a record.
std::string said(std::exception const& error)
{
    return core::in_one_line(error.what());
}

}  // namespace

fault classify_current()
try {
    throw;
}
catch (fault const& already) {
    return already;
}
// These do not derive from sql_error, and carry no state.
catch (pqxx::broken_connection const& error) {
    return {fault_kind::connection_lost, said(error)};
}
catch (pqxx::transaction_rollback const& error) {
    return {fault_kind::contended, said(error)};
}
catch (pqxx::in_doubt_error const& error) {
    return {fault_kind::in_doubt, said(error)};
}
catch (pqxx::sql_error const& error) {
    return classify_state(state_of(error), said(error));
}
// Of an object that the step has closed: ctx.tx(), by which the server was told nothing, or one of another database.
catch (pqxx::usage_error const& error) {
    bool const is_closed = std::string_view{error.what()}.find("already closed") != std::string_view::npos;
    if (!is_closed) return {fault_kind::broken, error.what()};
    return {fault_kind::broken,
            said(error) + " (if that is ctx.tx(), leave its commit() or abort() out: Skald ends the transaction)"};
}
catch (std::exception const& error) {
    return {fault_kind::broken, error.what()};
}
catch (...) {
    return {fault_kind::broken, "an exception that is no std::exception"};
}

fault classify_current_of_ours()
{
    auto met = classify_current();
    auto const state = current_state();
    if (state.empty() || met.kind == fault_kind::connection_lost || met.kind == fault_kind::transaction_ended)
        return met;
    // 22, 23, 54, P0: data that the server can't hold, or that a constraint or a function of Skald's rejects.
    bool const is_the_datas =
        state.starts_with("22") || state.starts_with("23") || state.starts_with("54") || state.starts_with("P0");
    if (is_the_datas) return met;
    // What waited too long may wait again; all else may be the connection's fault: what a step left in its session.
    bool const waited = met.kind == fault_kind::contended || met.kind == fault_kind::lock_timeout || state == "57014";
    met.kind = fault_kind::unavailable;
    met.connection_is_suspect = !waited;
    return met;
}

bool says_blocked()
{
    auto const kind = classify_current().kind;
    return kind == fault_kind::contended || kind == fault_kind::lock_timeout;
}

bool may_pass()
{
    auto const kind = classify_current().kind;
    auto const state = current_state();
    // Not what a new connection of a running process may mend: an extension that the server lacks is 0A000 too.
    if (kind == fault_kind::retry_at_once) return state != "0A000" && state != "42P05" && state != "XX000";
    return kind == fault_kind::connection_lost || kind == fault_kind::contended || kind == fault_kind::lock_timeout ||
           kind == fault_kind::in_doubt || state == "57014";
}

bool says_read_only()
{
    return current_state() == "25006";
}

fault classify_current_at_commit()
{
    auto met = classify_current();
    // The query may have got as far as COMMIT before the connection died: this side can't know.
    if (met.kind == fault_kind::connection_lost) met.kind = fault_kind::in_doubt;
    else if (current_state() == "57014") met.kind = fault_kind::retry_at_once;
    return met;
}

fault classify_current_at_commit_of_ours()
{
    auto met = classify_current_of_ours();
    if (met.kind == fault_kind::connection_lost) met.kind = fault_kind::in_doubt;
    return met;
}

fault lost_session(fault const& met, std::chrono::duration<double> since_claim, std::chrono::milliseconds silence_max)
{
    fault found{
        met.kind,
        fmt::format(
            "the session was lost {:.1f} s after the claim: {}; the server ends a session that is silent for {} s "
            "in a transaction, an operator may have ended it, or the server can't be reached: its log says which",
            since_claim.count(), met.what(), silence_max.count() / 1000),
        met.connection_is_suspect};
    found.outlasted_silence = since_claim >= silence_max;
    return found;
}

}  // namespace skald::postgres
