#include "rehearsal/observer.hpp"

#include "rehearsal/written_rows.hpp"
#include "skald_rehearsal_queries.hpp"

#include <pqxx/pqxx>

#include <chrono>

namespace skald::rehearsal {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using postgres::filled_in;
namespace queries = rehearsal_queries;

// Often enough to meet a wait of 200 ms.
constexpr auto poll_every = 25ms;

}  // namespace

observer::observer(postgres::connection_options const& options) : connection_{options}, thread_{[this] { poll(); }} {}

observer::~observer()
{
    {
        std::lock_guard const lock{mutex_};
        ends_ = true;
    }
    woken_.notify_one();
    thread_.join();
}

void observer::watch(int pid)
{
    std::lock_guard const lock{mutex_};
    pid_ = pid;
}

void observer::poll()
{
    std::unique_lock lock{mutex_};
    while (!woken_.wait_for(lock, poll_every, [this] { return ends_; })) {
        if (pid_ == 0) continue;
        try {
            auto found = json::array();
            for (auto const& row : connection_.run(filled_in(queries::blockers_of{.pid = pid_}))) {
                found.push_back({{"pid", row["pid"].as<int>()},
                                 {"application", row["application"].c_str()},
                                 {"role", row["role"].c_str()},
                                 {"state", row["state"].c_str()},
                                 {"transaction_seconds", row["seconds"].as<std::int64_t>()},
                                 {"query", row["query"].c_str()}});
            }
            if (!found.empty()) blockers_ = std::move(found);
        }
        catch (std::exception const&) {
            return;  // the rehearsal itself fails too, or ends without this
        }
    }
}

json observer::blockers()
{
    std::lock_guard const lock{mutex_};
    return blockers_;
}

json observer::locks() noexcept
try {
    std::lock_guard const lock{mutex_};
    return locks_of(pid_);
}
catch (std::exception const&) {
    return json::array();
}

json observer::locks_of(int pid)
{
    auto found = json::array();
    for (auto const& row : connection_.run(filled_in(queries::locks_of{.pid = pid})))
        if (!row["is_skalds"].as<bool>()) found.push_back({{"on", row["what"].c_str()}, {"mode", row["mode"].c_str()}});
    return found;
}

observation observer::look(postgres::connection& c) noexcept
{
    observation seen;
    try {
        look(c, seen);
    }
    catch (std::exception const& error) {
        seen.why_incomplete = error.what();
    }
    return seen;
}

void observer::look(postgres::connection& c, observation& seen)
{
    std::lock_guard const lock{mutex_};
    auto const transaction = c.run(std::string{queries::transaction_of_rehearsal});
    if (!transaction[0]["counts"].as<bool>()) seen.why_incomplete = "track_counts is off: rows are not counted";
    seen.locks = locks_of(pid_);
    add_written_rows(seen.tables, c, connection_, transaction[0]["id"].c_str());
}

}  // namespace skald::rehearsal
