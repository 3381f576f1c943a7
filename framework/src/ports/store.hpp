// The store port: a database as one lane sees it. One transaction at a time, on one connection, used by one thread.
//
// It is an inner seam (for the tests' doubles and simulation) and no promise of other databases: what a step gets is
// honestly PostgreSQL's transaction. The statements behind each function are in sql/queries/guard.sql.
#pragma once

#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/instant.hpp"
#include "core/transition.hpp"
#include "ports/fault.hpp"

#include <skald/transaction_context.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace skald::ports {

struct claim_item
{
    core::saga_id saga;
    std::string step;  // with its ".compensate"; empty for an entry request
    core::fingerprint fingerprint;
    int fencing_token{1};
    bool past_pivot{};
    std::optional<core::instant> deadline{};  // from then on the step must not run
    std::string home{};                       // the service whose saga it is; empty: not compared
};

/// See sql/migrations/0002_guard.sql for what each means and what to do with it.
enum class claim_result { fresh, retry, duplicate, in_flight, mismatch, cancelled, paused, closed };

/// Why a step that is held must not run; `other_home`, of a mismatch: the key is that of another home's saga here.
enum class cancel_cause { none, command, deadline, nothing_to_undo, other_home };

struct claim_answer
{
    ports::claim_result result{};
    int attempts{};  // held: the number of this attempt; else how many were made
    bool held{};
    cancel_cause cause{};
    std::string reason;  // the cause, for people; of `other_home` that home
};

/// A message for the outbox.
struct enqueued
{
    core::message message;
    std::string scope;
    std::string aggregate_type;  // the definition
    std::string aggregate_id;    // the saga's key
    std::chrono::milliseconds delay{};
    // Where it goes from memory: its row, and how long relays leave that alone (runtime/memory_source.hpp).
    std::optional<std::int64_t> row{};
    std::chrono::milliseconds grace_period{};
    // Of a user's own message, which is for no service: `keep` or `drop`, where no queue is bound.
    std::string_view if_unrouted{};
};

struct step_record
{
    core::saga_id saga;
    std::string step;
    core::step_status status{};
    int attempts{};
    int snoozes_added{};
    std::string error;
    bool forget_fingerprint{};  // the delivery was wrong: the right one, with another body, may still come
};

/// A record of a step that ran without a claim of its own, inside an entry request.
struct new_record
{
    core::saga_id saga;
    std::string step;
    core::fingerprint fingerprint;
};

struct new_saga
{
    core::saga_id saga;
    std::string definition;
    int version{1};
    std::string data;
    std::string itinerary;
    std::optional<core::instant> deadline{};
};

struct saga_change
{
    core::saga_id saga;
    core::saga_state state{};
    std::string reason;
};

struct parked_delivery
{
    core::saga_id saga;
    std::string step;
    std::string reason;  // one of the constraint reason_is_known
    std::string error;
    core::message message;
    int attempts{};
};

struct stored_response
{
    core::saga_id saga;
    int status{};
    std::string content_type;
    core::header_list headers;
    std::string body;
};

/// How the transactions of one step may get in each other's way, as a process has found out (runtime/step_limit.hpp).
struct contention
{
    std::string step;
    std::string reason;        // why the limit has changed
    std::size_t lanes{};       // of the process that run it at a time
    std::size_t batch{};       // deliveries in one transaction
    bool takes_turns{};        // with other processes
    std::int64_t conflicts{};  // since the last time that this was told
};

/// A claim of a request's key. `answer`: what it was answered before, if that was over HTTP.
struct request_claim
{
    claim_answer claimed;
    std::optional<stored_response> answer;
};

/// What a transaction leaves behind besides the user's own writes. Written in one round trip, together with COMMIT.
struct changes
{
    std::vector<new_saga> sagas;
    std::vector<new_record> new_records;
    std::vector<step_record> records;
    std::vector<std::string> progress;  // JSON arrays of other services' reports, as received
    std::vector<core::command> commands;
    std::vector<std::string> ended;    // the same, of sagas that their homes declare ended
    std::vector<std::string> expired;  // and of sagas of this home whose records are gone in other services
    std::vector<saga_change> saga_changes;
    std::vector<enqueued> messages;
    std::vector<parked_delivery> parked;
    std::optional<stored_response> response;
    std::vector<ports::contention> contention;
};

/// How a transaction begins.
struct claim_options
{
    /// How long to wait for a transaction that has one of the keys; where that is not enough for one of them, all are
    /// `in_flight`. Nothing: the session's lock_timeout.
    std::optional<std::chrono::milliseconds> key_wait{};

    /// From the claim to commit(): how long a statement waits for a lock. Nothing: the session's lock_timeout.
    std::optional<std::chrono::milliseconds> lock_wait{};

    /// First of all it waits until no other transaction of this database that takes turns is open.
    bool takes_turn{};
};

enum class transaction_state {
    open,
    aborted,  // a statement failed in it, and whoever sent that went on
    lost,     // the connection is gone, and the transaction with it
    ended,    // by a COMMIT or ROLLBACK of the step's own
};

/// A database as one lane sees it. What may follow what: begin() or begin_request(), which open a transaction; then, as
/// often as wanted, unit(), savepoint() and undo_to_savepoint(); then commit(), after finish_step() or not; or
/// rollback(). Each asserts that.
class store
{
public:
    virtual ~store() = default;

    /// Connects if there is no connection. Throws fault{connection_lost}.
    virtual void connect() = 0;

    /// BEGIN and claim, in one round trip. Without items nothing is claimed; commit() finds out all the same
    /// whether it is still that transaction. With several, a step's own COMMIT fails: it would commit for all.
    /// Throws fault.
    virtual std::vector<claim_answer> begin(std::span<claim_item const> items, claim_options const& how = {}) = 0;

    /// The same for a request, with its answer where it has one. A key that was answered costs no attempt to claim it.
    virtual request_claim begin_request(claim_item const& item, std::optional<std::chrono::milliseconds> wait) = 0;

    /// What the transaction does from here on can be undone alone, until the next savepoint() or commit(). Throws
    /// fault: transaction_ended where the transaction of begin() is gone.
    virtual void savepoint() = 0;

    /// Undoes that, and the locks that it took go. Throws as savepoint() does.
    virtual void undo_to_savepoint() = 0;

    /// The transaction that begin() opened, for the step.
    virtual detail::unit_of_work& unit() = 0;

    /// The server's clock when begin() claimed.
    virtual core::instant claimed_at() const = 0;

    /// Numbers for the rows of `count` messages that the next commit() is to insert. Empty where there are none to be
    /// had: then the outbox numbers them itself. Nothing but commit() or rollback() may follow.
    virtual std::vector<std::int64_t> new_rows([[maybe_unused]] std::size_t count) { return {}; }

    /// Runs what the step has put off until COMMIT (deferred constraints), in a round trip of its own. Not needed, and
    /// slower; but what commit() throws afterwards is never the step's doing. Throws fault.
    virtual void finish_step() = 0;

    /// Writes `what` and commits, in one round trip, after making sure that it is still the transaction that claimed.
    /// Throws fault; after `in_doubt` nobody knows, and begin() with the same items finds out.
    virtual void commit(changes const& what) = 0;

    /// Writes `what` in a transaction of its own, without a claim.
    virtual void write(changes const& what) = 0;

    /// What has become of the transaction that begin() opened, in a round trip. Only for the unhappy ways: commit()
    /// checks for itself.
    virtual transaction_state state() noexcept = 0;

    /// Ends the transaction, if there is one, without its effects. What can't be rolled back is disconnected.
    virtual void rollback() noexcept = 0;

    /// What steps were seen to have left in their session since this was last asked, and what to do instead, for
    /// people; empty where nothing was. It is looked for now and then and told once for each step, and gone by the next
    /// begin() whether it was seen or not.
    virtual std::string left_behind() { return {}; }

    /// What the exception that is being handled means. To be called in a catch block.
    virtual fault classify_current() = 0;
};

/// The outbox as a publish loop sees it. One connection, used by one thread.
class outbox
{
public:
    struct row
    {
        std::int64_t id{};
        int attempts{};
        core::message message;
        bool is_users{};  // and no service's: where no queue is bound it is set aside
    };

    struct deferral
    {
        std::int64_t id{};
        std::string reason;
        std::chrono::milliseconds delay{};
        bool is_unrouted{};  // a user's: it is set aside, or dropped, as its row says
    };

    virtual ~outbox() = default;

    /// Takes what is due, at most `max`, into a transaction that stays open until settle() or release(). Nobody else
    /// sees these rows until then; if this process dies they are free again.
    virtual std::vector<row> take(std::size_t max) = 0;

    /// `confirmed` go, `deferred` stay with a reason and come due later. Of what was taken the rest is free at once;
    /// where nothing was, the rows may be any.
    virtual void settle(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) = 0;

    /// Gives back everything that was taken.
    virtual void release() noexcept = 0;
};

}  // namespace skald::ports
