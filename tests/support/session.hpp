// A session that stays open, with its transaction controlled by the test.
#pragma once

#include "support/database.hpp"

#include <string>
#include <thread>

namespace skald::test {

inline std::string claim_sql(std::string const& scope, std::string const& key, std::string const& step,
                             std::string const& body = "{}", std::string const& more = "")
{
    return "SELECT result || ' ' || attempts || ' ' || held FROM skald.claim(ARRAY['" + scope + "'], ARRAY['" + key +
           "'], ARRAY['" + step + "'], ARRAY[sha256('" + body + "')]" + more + ")";
}

class session
{
public:
    explicit session(database const& db) : c_{db.url()} {}

    /// The first column of the first row, or nothing.
    std::string run(std::string const& sql)
    {
        auto const result = pqxx::nontransaction{c_}.exec(sql);
        return result.empty() || result[0][0].is_null() ? "" : result[0][0].c_str();
    }

    std::string claim(std::string const& key, std::string const& step, std::string const& body = "{}",
                      std::string const& more = "")
    {
        return run(claim_sql("", key, step, body, more));
    }

    int pid() { return c_.backendpid(); }

private:
    pqxx::connection c_;
};

/// Waits until another session is blocked by `holder`: the server reports it, no time is guessed.
inline void wait_until_blocked_by(database const& db, int holder)
{
    while (db.one("SELECT count(*) FROM pg_stat_activity WHERE " + std::to_string(holder) +
                  " = ANY (pg_blocking_pids(pid))") == "0")
        std::this_thread::yield();
}

}  // namespace skald::test
