// Watches a rehearsal's transaction from a connection of its own, which sees the tables as everybody else does.
#pragma once

#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace skald::rehearsal {

/// What a transaction has done, before it is rolled back: lists of objects, as in the report.
struct observation
{
    nlohmann::json tables = nlohmann::json::array();
    nlohmann::json locks = nlohmann::json::array();
    std::string why_incomplete;
};

/// Threads: it has one of its own, which notes whom the transaction waits for; the others' calls must not overlap.
class observer
{
public:
    explicit observer(postgres::connection_options const& options);
    ~observer();

    /// From now on it is this server process.
    void watch(int pid);

    /// `c` has the transaction open. Takes a second at most, and says where that was not enough.
    observation look(postgres::connection& c) noexcept;

    /// That it holds now. Empty if the database does not answer.
    nlohmann::json locks() noexcept;

    /// Whom it has waited for last, if for anybody.
    nlohmann::json blockers();

private:
    void poll();
    void look(postgres::connection& c, observation& seen);
    nlohmann::json locks_of(int pid);

    std::mutex mutex_;  // guards all of these
    postgres::connection connection_;
    int pid_{};
    nlohmann::json blockers_ = nlohmann::json::array();
    bool ends_{};
    std::condition_variable woken_;
    std::thread thread_;
};

}  // namespace skald::rehearsal
