// What we have: rows of the user's own query, and the guard's records of a step.
#pragma once

#include "audit/cursor.hpp"
#include "audit/entry.hpp"
#include "audit/period.hpp"
#include "postgres/connection.hpp"

#include <optional>
#include <string>
#include <vector>

namespace skald::audit {

struct ours_options
{
    std::string query;  // with $1 and $2 for the period; empty: the records alone
    std::string step;   // empty: the rows alone
    bool by_saga{};     // the other side knows a saga's key, and not the step's
    std::vector<std::string> compare;
};

/// What the guard says about a step.
struct record
{
    std::string scope, key, home, status, at;
    bool settles_within{};  // it began and was decided within the period
    bool began_within{};    // or later
    bool is_old{};          // it began before the end of the period

    bool is_open() const
    {
        return status == "started" || status == "retrying" || status == "parked" || status == "compensating";
    }
    bool is_done() const { return status == "completed" || status == "compensated" || status == "compensating"; }
    /// The other side has to have it.
    bool is_settled() const { return status == "completed" && settles_within; }
};

/// In the order of the keys. Which of the compared columns are numbers is known once there is a row.
class our_rows
{
public:
    our_rows(postgres::connection& c, ours_options const& options, std::string const& name, period const& over);

    std::optional<entry> next();
    std::vector<bool> const& is_number() const { return is_number_; }

private:
    void look_at_columns();

    ours_options const& options_;
    cursor rows_;
    std::string latest_;
    std::vector<pqxx::row::size_type> columns_;
    std::vector<bool> is_number_, is_boolean_;
};

/// From when on the guard has all of its records. Nothing: it has never deleted any.
std::optional<core::instant> remembered_since(postgres::connection& c);

/// A call may take longer than a period, and is compared in the one in which it was completed: the period from its
/// beginning on, as far as the guard remembers.
period with_beginnings(postgres::connection& c, ours_options const& options, period over);

class our_records
{
public:
    our_records(postgres::connection& c, ours_options const& options, period const& over);

    /// With the key under which the other side would have it.
    std::optional<std::pair<std::string, record>> next();

private:
    cursor rows_;
};

/// The query without what may follow its end: `;`, spaces.
std::string trimmed(std::string query);

}  // namespace skald::audit
