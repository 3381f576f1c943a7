// One service's database in the kit: migrated once, reset to that state as often as needed, and queried.
#pragma once

#include "postgres/connection.hpp"
#include "postgres/literal.hpp"
#include "postgres/migrate.hpp"
#include "testing/server.hpp"

#include <skald/testing/views.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace skald::testing::inner {

/// A row of a result as text, for people and for comparison: its columns, joined by " | ".
inline std::string text_of(pqxx::row const& row)
{
    std::string text;
    for (pqxx::row::size_type i = 0; i < row.size(); ++i) {
        if (i > 0) text += " | ";
        text += row[i].is_null() ? "<null>" : row[i].c_str();
    }
    return text;
}

/// Threads: one.
class service_database
{
public:
    /// `given`: SQL that runs after the migrations.
    service_database(server& on, std::string service, std::vector<postgres::migration> migrations, std::string given);

    std::string url() const { return server_.url_of(name_); }

    /// For stores and outboxes. No COMMIT waits for the disk here: the kit crashes services, never the server.
    postgres::connection_options options() const;

    /// Restores the initial state. True: in a different database, so that every client has to reconnect.
    bool rewind();

    /// Whether the initial state has messages to send.
    bool starts_with_messages() const { return starts_with_messages_; }

    /// A session for the kit itself.
    postgres::connection& session();

    /// As text: the columns of a row joined by " | ", or the result of one of the kit's named queries.
    rows ask(std::string const& sql);
    std::vector<std::pair<std::string, std::string>> pairs(std::string_view query);

    /// One of the kit's queries. It is prepared when it first runs here: to plan it takes far longer than to run it.
    template <class Statement>
    pqxx::result run(Statement const& statement)
    {
        return run(Statement::statement_text, statement.parameters());
    }
    pqxx::result run(std::string_view text, std::span<postgres::parameter const* const> parameters = {});

    /// All rows of all user tables, one entry each: the table, and the row as JSON.
    std::vector<std::pair<std::string, std::string>> every_row();

    /// Where the user's sequences are, and back there: a transaction that is rolled back has moved them on.
    void remember_sequences();
    void put_sequences_back();

    std::optional<std::chrono::milliseconds> next_due();
    void advance(std::chrono::milliseconds time);

    /// The service's steps, and whether each takes signals.
    void record_hosted(std::vector<std::string> const& steps, std::vector<bool> const& take_signals);

    /// Of started steps: whoever has one, another may take it now.
    void end_leases();

private:
    std::string migrated();
    void recreate();
    bool may_rewind();
    void read_shape();

    server& server_;
    std::string service_;
    std::vector<postgres::migration> migrations_;
    std::string given_;
    std::string original_;  // the template, if the database has to be copied for each run
    std::string name_;
    std::string shape_;
    std::string every_table_;
    std::string every_sequence_;
    std::string sequences_;  // the statement that puts them back; empty: there is nothing to put back
    bool starts_with_messages_{};
    std::unique_ptr<pqxx::connection> rewinder_;  // null if the role lacks the privilege
    std::unique_ptr<postgres::connection> session_;
    std::unordered_map<std::string, std::string> prepared_;  // in the session: the names, by text
    std::size_t prepared_count_{};
    std::optional<std::pair<std::vector<std::string>, std::vector<bool>>> hosted_;  // as recorded
};

}  // namespace skald::testing::inner
