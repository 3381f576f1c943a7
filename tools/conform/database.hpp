// The participant's database: its ledger, who is held there, and what it says at the end.
#pragma once

#include "conform/seen.hpp"
#include "postgres/connection.hpp"

#include <optional>
#include <string>
#include <vector>

namespace skald::conform {

/// Throws what pqxx throws. Threads: one.
class database
{
public:
    /// Makes the ledger anew.
    explicit database(postgres::connection_options const& options);

    /// Whoever writes this line of the ledger, or the record of a step that ends badly, waits there until release().
    void hold(std::string const& line, place where);
    std::optional<int> held(std::string const& line, place where);  // the session that waits there
    void end_session(int session);
    void refuse(std::string const& line, std::string const& sqlstate, int session);  // its transaction, and no other
    void release();

    void open_gate(saga_name const& saga);
    std::vector<saga_name> snoozed(std::string const& run);
    bool has_command(saga_name const& saga);
    int unsent();
    void forget_unsent();
    std::string clock();

    void read(std::string const& run, seen& into);

private:
    postgres::connection connection_;
};

}  // namespace skald::conform
