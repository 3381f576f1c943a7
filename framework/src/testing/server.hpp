// The PostgreSQL server that a harness uses: creates and drops its own databases, and drops those that a killed run
// left.
#pragma once

#include "postgres/connection.hpp"

#include <memory>
#include <string>
#include <vector>

struct pg_conn;

namespace skald::testing::inner {

/// Threads: one.
class server
{
public:
    /// Connects, drops what killed runs left behind, and registers as a run of its own. Throws configuration_error if
    /// the server can't be reached or its role may not create databases.
    explicit server(std::string const& url);
    ~server();
    server(server const&) = delete;
    server& operator=(server const&) = delete;

    std::string url_of(std::string const& database) const;

    /// Returns its name. `original`: the database to copy; it must have no connections then.
    std::string create(std::string const& original = {});

    /// Shared by all connections of the run.
    std::shared_ptr<postgres::server_state> const& state() const { return state_; }

    /// Terminates all connections to it.
    void drop(std::string const& database) noexcept;

private:
    using rows = std::vector<std::string>;

    rows run(std::string const& statement);

    std::string url_;
    std::string name_;  // of the run: a session of that name shows that the run is active
    // libpq directly: a harness may be static, and libpqxx's tables are destroyed before it.
    std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_;
    std::shared_ptr<postgres::server_state> state_{std::make_shared<postgres::server_state>()};
    std::vector<std::string> databases_;
    int created_{};
};

}  // namespace skald::testing::inner
