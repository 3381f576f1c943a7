// The PostgreSQL server that a harness works on: databases of its own, made and dropped, and
// those that a killed run left.
#pragma once

#include "postgres/server_state.hpp"

#include <memory>
#include <string>
#include <vector>

struct pg_conn;

namespace skald::testing::inner {

/// Threads: one.
class server
{
public:
    /// Connects, drops what killed runs left behind, and is from now on a run of its own.
    /// Throws configuration_error where there is no server to be reached, or its role may not create databases.
    explicit server(std::string const& url);
    ~server();
    server(server const&) = delete;
    server& operator=(server const&) = delete;

    std::string url_of(std::string const& database) const;

    /// Returns its name. `original`: what it is a copy of; nobody may be connected to that then.
    std::string create(std::string const& original = {});

    /// For every connection of the run.
    std::shared_ptr<postgres::server_state> const& state() const { return state_; }

    /// Whoever is connected to it is cut off.
    void drop(std::string const& database) noexcept;

private:
    using rows = std::vector<std::string>;

    rows run(std::string const& statement);

    std::string url_;
    std::string name_;  // of the run: a session of that name says that it is under way
    // libpq's own: a harness may be static, and then libpqxx's tables are gone before it.
    std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_;
    std::shared_ptr<postgres::server_state> state_{std::make_shared<postgres::server_state>()};
    std::vector<std::string> databases_;
    int created_{};
};

}  // namespace skald::testing::inner
