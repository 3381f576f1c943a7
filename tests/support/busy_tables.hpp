// Tables of Skald's that another session has locked, and a lane that meets them.
#pragma once

#include "support/stepped_services.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <optional>

namespace skald::test {

using runtime::failure;
using runtime::reaction;
using runtime::task;
using namespace std::chrono_literals;

// More often than anything may be rolled back before it counts as contended.
inline constexpr int many = runtime::contended_max + 5;

/// A lane with a short lock timeout.
class hasty_lane
{
public:
    explicit hasty_lane(stepped_service& of)
        : store_{{.url = of.db.url(), .lock_timeout = 2ms}}, executor_{of.executor_on(store_)}
    {}

    /// One try, as a worker's. Nothing: it was processed.
    std::optional<failure> try_once(task& t)
    {
        auto const result = executor_.run({&t, 1});
        if (result.processed()) return {};
        last_error = result.not_processed->error;
        CHECK(result.not_processed->then == reaction::again);
        t.put_back(result.not_processed->why, result.not_processed->then, true);
        return result.not_processed->why;
    }

    void try_often(task& t)
    {
        for (int n = 0; n < many; ++n) {
            auto const why = try_once(t);
            REQUIRE(why.has_value());
            if (n > 0) CHECK(runtime::name_of(*why) == "unavailable");
        }
    }

    std::string last_error;

private:
    postgres::postgres_store store_;
    runtime::executor executor_;
};

class table_lock
{
public:
    table_lock(database const& db, std::string const& table) : connection_{db.url()}, holding_{connection_}
    {
        holding_.exec("LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE");
    }

private:
    pqxx::connection connection_;
    pqxx::work holding_;
};

/// The only delivery that waits at a service.
inline task only_task(stepped_service& at)
{
    auto tasks = at.route(at.take_all());
    REQUIRE(tasks.size() == 1);
    return std::move(tasks.front());
}

inline void check_waits_out(stepped_service& at, task& t, std::string const& table)
{
    CAPTURE(table);
    hasty_lane lane{at};
    {
        table_lock const held{at.db, table};
        lane.try_often(t);
    }
    // A connection that had to be reopened in the meantime waits a moment before the next try.
    CHECK_MESSAGE(testing::wait_until([&] { return !lane.try_once(t).has_value(); }), lane.last_error);
    CHECK(at.db.one("SELECT count(*) FROM skald.parked") == "0");
}

}  // namespace skald::test
