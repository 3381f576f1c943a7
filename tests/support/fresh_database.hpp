// A database for one test on the server of DATABASE_URL, gone when the test is.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include "support/required.hpp"

namespace skald::test {

using table = std::vector<std::vector<std::string>>;  // rows of text; NULL is "<null>"

inline std::string random_word()
{
    std::random_device device;
    std::string word;
    for (int i = 0; i < 12; ++i) word += static_cast<char>('a' + device() % 26);
    return word;
}

/// Threads: one at a time.
class fresh_database
{
public:
    explicit fresh_database(std::string const& prefix) : name_{"e2e_" + prefix + '_' + random_word()}
    {
        server("CREATE DATABASE " + name_);
    }
    struct encoded
    {
        std::string how;
    };
    fresh_database(std::string const& prefix, encoded const& by) : name_{"e2e_" + prefix + '_' + random_word()}
    {
        server("CREATE DATABASE " + name_ + " TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING '" + by.how +
               "'");
    }
    /// A copy of another one, which must not be in use meanwhile.
    fresh_database(std::string const& prefix, fresh_database& original) : name_{"e2e_" + prefix + '_' + random_word()}
    {
        original.connection_.reset();
        server("CREATE DATABASE " + name_ + " TEMPLATE " + original.name_);
    }
    fresh_database(fresh_database const&) = delete;
    fresh_database& operator=(fresh_database const&) = delete;
    ~fresh_database()
    {
        try {
            connection_.reset();
            server("DROP DATABASE " + name_ + " WITH (FORCE)");
        }
        catch (std::exception const& error) {
            std::fprintf(stderr, "the database %s stays behind: %s\n", name_.c_str(), error.what());
        }
    }

    std::string const& name() const { return name_; }
    void rename(std::string const& to)
    {
        connection_.reset();
        server("ALTER DATABASE " + name_ + " RENAME TO " + to);
        name_ = to;
    }
    /// `other` has this one's name from now on, and this one another; whoever works in either is disconnected.
    void give_name_to(fresh_database& other)
    {
        auto const mine = name_;
        for (auto* one : {this, &other}) {
            one->connection_.reset();
            server("ALTER DATABASE " + one->name_ + " WITH ALLOW_CONNECTIONS false");
            server("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + one->name_ +
                   "'");
        }
        rename(mine + "_away");
        other.rename(mine);
        for (auto* one : {this, &other}) server("ALTER DATABASE " + one->name_ + " WITH ALLOW_CONNECTIONS true");
    }
    std::string url() const
    {
        auto const server = required("DATABASE_URL");
        auto const path = server.find('/', server.find("://") + 3);
        return server.substr(0, path) + '/' + name_;
    }

    /// Each call in a transaction of its own, on a connection that is reopened if the server was away since.
    table ask(std::string const& sql)
    {
        for (int tries = 1;; ++tries) {
            bool began = false;
            try {
                if (!connection_ || !connection_->is_open()) connection_ = std::make_unique<pqxx::connection>(url());
                pqxx::work tx{*connection_};
                began = true;
                auto const rows = tx.exec(sql);
                tx.commit();
                return text_of(rows);
            }
            catch (pqxx::failure const&) {
                connection_.reset();
                if (began || tries == 2) throw;
            }
        }
    }
    std::string value(std::string const& sql) { return ask(sql).at(0).at(0); }
    long count(std::string const& from) { return std::stol(value("SELECT count(*) FROM " + from)); }

    /// From now on an insert into this table takes that long, with its transaction open.
    void slow_down(std::string const& inserted_into, std::chrono::milliseconds by)
    {
        auto const seconds = std::to_string(by.count()) + " / 1000.0";
        ask("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(" + seconds +
            "); RETURN NEW; END $$;"  // the slowness itself
            "CREATE TRIGGER slow BEFORE INSERT ON " +
            inserted_into + " FOR EACH ROW EXECUTE FUNCTION slow()");
    }
    /// Whether a slow insert is running.
    bool is_slow_now()
    {
        return count("pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == 1;
    }
    /// Whether a session in it waits for a lock that another holds.
    bool has_one_waiting()
    {
        return count("pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = "
                     "current_database())") > 0;
    }

private:
    static table text_of(pqxx::result const& rows)
    {
        table out;
        for (auto const& row : rows) {
            auto& cells = out.emplace_back();
            for (auto const& cell : row) cells.emplace_back(cell.is_null() ? "<null>" : cell.c_str());
        }
        return out;
    }
    static void server(std::string const& sql)
    {
        pqxx::connection connection{required("DATABASE_URL")};
        pqxx::nontransaction{connection}.exec(sql);
    }
    std::string name_;
    std::unique_ptr<pqxx::connection> connection_;
};

}  // namespace skald::test
