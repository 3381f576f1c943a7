// A setting of the whole PostgreSQL server for the length of a test: its other databases get it too.
#pragma once

#include "support/required.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>
#include <pqxx/pqxx>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace skald::test {

/// In effect for every new session when the constructor returns. Ends with the object, or at reset(). While it lives,
/// other processes wait that would change the same one of the same server.
class server_setting
{
public:
    server_setting(std::string name, std::string const& value) : name_{std::move(name)}
    {
        pqxx::nontransaction{alone_}.exec("SELECT pg_advisory_lock(" + lock_of(name_) + ")");
        set("SET " + name_ + " = '" + value + "'", value);
    }
    server_setting(server_setting const&) = delete;
    server_setting& operator=(server_setting const&) = delete;
    ~server_setting()
    {
        try {
            reset();
        }
        catch (std::exception const& error) {
            std::fprintf(stderr, "%s stays changed: %s\n", name_.c_str(), error.what());
        }
    }
    void reset()
    {
        if (std::exchange(is_set_, false)) set("RESET " + name_, {});
    }

    /// Taken by whoever changes that setting, shared by those whom the change would disturb.
    static std::string lock_of(std::string const& name) { return "hashtextextended('skald.test." + name + "', 0)"; }
    static std::string run(std::string const& sql)
    {
        pqxx::connection c{required("DATABASE_URL")};
        pqxx::nontransaction tx{c};
        auto const rows = tx.exec(sql);
        return rows.empty() ? "" : rows[0][0].c_str();
    }

private:
    void set(std::string const& change, std::string const& expected)
    {
        run("ALTER SYSTEM " + change);
        run("SELECT pg_reload_conf()");
        REQUIRE(testing::wait_until([&] {
            auto const now = run("SHOW " + name_);
            return expected.empty() ? now.empty() || now == "off" : now == expected;
        }));
    }
    std::string name_;
    pqxx::connection alone_{required("DATABASE_URL")};
    bool is_set_{true};
};

/// A synchronous standby that never answers. COMMITs wait for it when the constructor returns: the server makes them
/// wait once its checkpointer has read the setting, and that may be later than the sessions have.
class absent_standby : public server_setting
{
public:
    absent_standby() : server_setting{"synchronous_standby_names", "nobody"}
    {
        REQUIRE(testing::wait_until([] { return a_commit_waits(); }));
    }

private:
    static bool a_commit_waits()
    {
        pqxx::connection c{required("DATABASE_URL")};
        auto const pid = std::to_string(c.backendpid());
        std::atomic<bool> is_done{false};
        std::jthread const committer{[&] {
            pqxx::nontransaction{c}.exec("SELECT pg_logical_emit_message(true, 'skald.test', '')");
            is_done = true;
        }};
        auto const waits = [&] {
            return run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = " + pid) == "1";
        };
        bool has_waited = false;
        bool const is_known = testing::wait_until([&] { return is_done || (has_waited = waits()); });
        run("SELECT pg_cancel_backend(" + pid + ")");
        return is_known && has_waited;
    }
};

/// While it lives, tests of other programs, which run beside this one, let no COMMIT wait for an absent standby: `skald
/// doctor` would rightly report it as a problem here too.
class no_absent_standby
{
public:
    no_absent_standby()
    {
        pqxx::nontransaction{shared_}.exec("SELECT pg_advisory_lock_shared(" +
                                           server_setting::lock_of("synchronous_standby_names") + ")");
    }

private:
    pqxx::connection shared_{required("DATABASE_URL")};
};

/// How many sessions of this database wait for standbys.
inline char const* const standby_waits =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()";

/// While it lives, it cuts short each COMMIT's wait in that database: they return, with a warning.
class impatient_operator
{
public:
    explicit impatient_operator(std::string const& database)
        : cuts_{[database](std::stop_token const& stop) {
              while (!stop.stop_requested())
                  server_setting::run(
                      "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
                      "AND datname = '" +
                      database + "'");
          }}
    {}

private:
    std::jthread cuts_;
};

}  // namespace skald::test
