// One service's database in the kit: migrated once, brought back to what it was then as often as need be, and asked.
#pragma once

#include "postgres/connection.hpp"
#include "postgres/migrate.hpp"
#include "testing/server.hpp"

#include <skald/testing/views.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::testing::inner {

/// Threads: one.
class service_database
{
public:
    /// `given`: SQL that runs behind the migrations.
    service_database(server& on, std::string service, std::vector<postgres::migration> migrations, std::string given);

    std::string url() const { return server_.url_of(name_); }

    /// For stores and outboxes. Nobody's COMMIT waits for the disk here: the kit's crashes are of
    /// services, never of the server.
    postgres::connection_options options() const;

    /// Everything is as it was first. True: in another database, so that whoever is connected has to connect anew.
    bool rewind();

    /// A session of the kit's own.
    postgres::connection& session();

    /// As text: the columns of a row joined by " | ", or what a named query of the kit's gives.
    rows ask(std::string const& sql);
    std::vector<std::pair<std::string, std::string>> pairs(std::string_view query);

    /// All rows of all of the user's tables, as one row each: the table, and the row as JSON.
    std::vector<std::pair<std::string, std::string>> every_row();

    std::optional<std::chrono::milliseconds> next_due();
    void advance(std::chrono::milliseconds time);

private:
    std::string migrated();
    void begin_anew();
    bool may_rewind();
    void learn_shape();

    server& server_;
    std::string service_;
    std::vector<postgres::migration> migrations_;
    std::string given_;
    std::string original_;  // where it has to be copied for each run
    std::string name_;
    std::string shape_;
    std::string every_table_;
    std::unique_ptr<pqxx::connection> rewinder_;  // none where the role may not
    std::unique_ptr<postgres::connection> session_;
};

}  // namespace skald::testing::inner
