#include "postgres/postgres_outbox.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "core/text.hpp"
#include "postgres/faults.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <cassert>
#include <string_view>

namespace skald::postgres {
namespace {

// A delete that a crash loses means a message published twice, which the guard absorbs: no need to wait for the disk.
constexpr auto begin_without_flush = "BEGIN; SET LOCAL synchronous_commit = off;";

// A row that is locked is another relay's, which may take seconds; what was just committed must not wait for that.
constexpr auto wait_for_locks_briefly = "SET LOCAL lock_timeout = 100;";
constexpr auto lock_not_available = "55P03";

// What one batch may hold in memory, however large its rows are.
constexpr std::int64_t bytes_max = 8 * 1024 * 1024;

ports::outbox::row read_row(pqxx::row const& row)
{
    ports::outbox::row read{row["id"].as<std::int64_t>(), row["attempts"].as<int>(), {}};
    auto& m = read.message;
    m.type = row["type"].c_str();
    m.body = core::from_hex(row["payload"].c_str());
    m.id = row["idempotency_key"].c_str();
    m.headers = read_headers(row["headers"].c_str());
    m.content_type = row["content_type"].c_str();
    m.destination = row["destination"].c_str();
    read.is_users = row["is_users"].as<bool>();
    read.waited = std::chrono::milliseconds{row["overdue_ms"].as<std::int64_t>()};
    return read;
}

}  // namespace

postgres_outbox::postgres_outbox(connection_options options, std::shared_ptr<low_water> mark)
    : options_{std::move(options)}, mark_{std::move(mark)}
{}

postgres_outbox::~postgres_outbox()
{
    release();
}

// Wraps every function: what can't be finished is released, and the fault is classified.
template <class Work>
auto postgres_outbox::guarded(Work work)
try {
    // In the middle of a batch too: what was taken on a node that has become read-only can't be deleted there.
    if (!connection_ || !connection_->is_usable()) connect();
    return work(*connection_);
}
catch (pqxx::failure const&) {
    auto const met = classify_current();
    if (says_read_only()) ++options_.server->node;
    release();
    if (met.connection_is_suspect) connection_.reset();
    throw met;
}

void postgres_outbox::connect()
{
    connection_.reset();
    connection_ = std::make_unique<connection>(options_);
    connection_->run(outbox_plans);
}

void postgres_outbox::connect_waiter()
{
    waiter_ = std::make_unique<connection>(options_);
    wait_.end_left_behind(*waiter_);
}

// Rows can be seen whose COMMIT has not waited for the standbys: the wait was cut short, or the server restarted in it.
// A failover would lose such a row, and its message would be of what never happened.
void postgres_outbox::wait_until_replicated()
try {
    if (!waiter_ || !waiter_->is_usable()) connect_waiter();
    wait_.run(*waiter_);
    if (!waiter_->warning().empty())
        throw ports::fault{ports::fault_kind::retry_at_once,
                           "what is due may not be on the standbys: " + waiter_->warning()};
}
catch (...) {
    release();
    throw;
}

std::vector<ports::outbox::row> postgres_outbox::take(std::size_t max)
{
    SKALD_ASSERT(!in_transaction_);  // a second take() would delete what the first took along with its own
    return guarded([&](connection& c) {
        mark_->raise(c, low_water::clock::now());
        auto const began = low_water::clock::now();
        in_transaction_ = true;
        auto const rows =
            c.run(begin_without_flush + execute(queries::take_due{.search_from = mark_->search_from(began),
                                                                  .rows_max = max,
                                                                  .bytes_max = bytes_max,
                                                                  .mark = mark_->mark()}));
        // A LIMIT that the planner moved into a join takes more than it says, and there is no room for the excess.
        SKALD_ASSERT(static_cast<std::size_t>(rows.size()) <= max);
        std::vector<row> taken;
        bool any_behind = false;
        for (auto const& one : rows) {
            taken.push_back(read_row(one));
            any_behind = any_behind || one["was_behind"].as<bool>();
        }
        mark_->searched(began, low_water::clock::now(), any_behind);
        taken_ = taken.size();
        if (taken.empty()) release();
        else if (rows[0]["standbys"].as<bool>()) wait_until_replicated();
        // RETURNING promises no order.
        std::ranges::sort(taken, {}, &row::id);
        return taken;
    });
}

// All of it was confirmed: it is deleted already.
void postgres_outbox::commit_taken()
{
    guarded([&](connection& c) {
        SKALD_FAILPOINT("relay.deleting");
        c.run("COMMIT");
        in_transaction_ = false;
    });
}

void postgres_outbox::resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred)
{
    assert(!in_transaction_ || confirmed.size() + deferred.size() <= taken_);
    if (in_transaction_ && confirmed.size() == taken_) return commit_taken();
    // What was taken is deleted in the open transaction; since not all of it may go, undo that and write the outcome of
    // each row. Another relay may take a row in between: then it is sent twice, never lost.
    release();
    if (confirmed.empty() && deferred.empty()) return;
    std::vector<std::int64_t> ids, delays, unrouted;
    std::vector<std::string> reasons, unrouted_reasons;
    for (auto const& one : deferred) {
        if (one.is_unrouted) {
            unrouted.push_back(one.id);
            unrouted_reasons.push_back(core::storable_text(one.reason));
            continue;
        }
        ids.push_back(one.id);
        delays.push_back(one.delay.count());
        reasons.push_back(core::storable_text(one.reason));
    }
    guarded([&](connection& c) {
        in_transaction_ = true;
        std::string later;
        if (!ids.empty()) later += execute(queries::defer{.ids = ids, .errors = reasons, .delays = delays});
        if (!unrouted.empty())
            later += execute(queries::move_to_unrouted{.ids = unrouted, .reasons = unrouted_reasons});
        auto const deleted_by = [&](std::string const& deletion) {
            c.run(std::string{begin_without_flush} + wait_for_locks_briefly + deletion + later + "COMMIT");
        };
        try {
            deleted_by(execute(queries::delete_confirmed{.ids = confirmed}));
        }
        catch (pqxx::sql_error const& error) {
            if (error.sqlstate() != lock_not_available) throw;
            c.run("ROLLBACK");
            deleted_by(execute(queries::delete_confirmed_and_free{.ids = confirmed}));
        }
        in_transaction_ = false;
    });
}

void postgres_outbox::release() noexcept
try {
    if (!in_transaction_) return;
    in_transaction_ = false;
    if (connection_ && connection_->is_open()) connection_->run("ROLLBACK");
    else connection_.reset();
}
catch (...) {
    connection_.reset();
}

}  // namespace skald::postgres
