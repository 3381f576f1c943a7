// Reads what only the database knows, for /metrics.
#pragma once

#include "metrics/database_figures.hpp"
#include "postgres/connection.hpp"

#include <string>

namespace skald::admin {

/// Threads: one.
class figure_reader
{
public:
    /// `to` must outlive it.
    explicit figure_reader(metrics::database_figures& to) : to_{to} {}

    /// Reads the figures, and then the sagas that have ended, each in a transaction that waits for no lock and whose
    /// statements take a second at the most. If that is not enough for the figures, they stay as they were, and age;
    /// returns why, or nothing. Ended sagas that can't be read now are read the next time. `outbox_from`: a time before
    /// which the outbox is known to be empty. Throws pqxx::broken_connection.
    std::string read(postgres::connection& c, std::string const& outbox_from);

private:
    void read_figures(postgres::connection& c, std::string const& outbox_from);
    void read_ended(postgres::connection& c);

    metrics::database_figures& to_;
    std::string ended_until_;  // sagas that ended until then are counted; empty: before the first time
};

}  // namespace skald::admin
