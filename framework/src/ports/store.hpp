// The store port: a database as one lane sees it. One transaction at a time, on one connection, used by one thread.
//
// It is an internal seam (for test doubles and the simulation) and no promise of other databases: what a step gets is
// plainly a PostgreSQL transaction. The statements that implement each function are in sql/queries/guard.sql.
#pragma once

#include "core/body_reference.hpp"
#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/instant.hpp"
#include "core/transition.hpp"
#include "ports/fault.hpp"
#include "ports/started.hpp"

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
    std::string home{};                       // the service that is the saga's home; empty: not compared
    std::optional<int>
        fence{};  // of a started step: claimed for its second transaction, with others of that kind; nothing else counts
};

/// See sql/migrations/0002_guard.sql for what each means and what to do with it.
enum class claim_result { fresh, retry, duplicate, in_flight, mismatch, cancelled, paused, closed };

/// Why a held step must not run; `other_home`, of a mismatch: here the key belongs to a saga of another home.
enum class cancel_cause { none, command, deadline, nothing_to_undo, other_home };

struct claim_answer
{
    ports::claim_result result{};
    int attempts{};  // held: the number of this attempt; otherwise how many were made
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
    // If it is sent from memory: its row, and how long relays leave that row alone (runtime/memory_source.hpp).
    std::optional<std::int64_t> row{};
    std::chrono::milliseconds grace_period{};
    // For a user's own message, which goes to no service: `keep` or `drop` if no queue is bound.
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
    bool drop_fingerprint{};  // the delivery was wrong: the right one, with a different body, may still arrive
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
    std::optional<core::body_reference> kept{};  // what its data is, if that is kept elsewhere
    std::string attributes{};                    // a JSON object of what it is found by; empty: nothing
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
    bool is_unreadable{};   // no step was claimed for it: the store reports it to the home, if its headers name that
    std::string handler{};  // the message handler that it was for; empty: it is a saga's
};

/// A message handler's reply, for whoever sends the message again.
struct stored_reply
{
    core::saga_id message;
    std::string handler;
    std::string body;
    std::optional<core::body_reference> kept{};  // what the body is, if that is kept elsewhere
};

/// The stored reply, if there is one, to a message that came again: `envelope` is the reply without its body.
struct repeated_reply
{
    core::saga_id message;
    std::string handler;
    core::message envelope;
};

struct stored_response
{
    core::saga_id saga;
    int status{};
    std::string content_type;
    core::header_list headers;
    std::string body;
    std::optional<core::body_reference> kept{};  // in the place of the body
};

/// A body that something in the same transaction refers to.
struct kept_body
{
    core::body_reference what;
    std::optional<std::string> bytes{};  // nothing: it is kept already, and held from now on by this service too
};

/// The current limits of one step whose transactions conflict, as a process determined them (runtime/step_limit.hpp).
struct contention
{
    std::string step;
    std::string reason;        // why the limit has changed
    std::size_t lanes{};       // of the process that may run it at a time
    std::size_t batch{};       // deliveries in one transaction
    bool takes_turns{};        // with other processes
    std::int64_t conflicts{};  // since this was last reported
};

/// A claim of a request's key. `answer`: the response that it got before, if that was over HTTP.
struct request_claim
{
    claim_answer claimed;
    std::optional<stored_response> answer;
    core::instant stored_at{};  // of that response
    std::string epoch{};        // the database's (skald.epoch()), no later than the response; empty: not known
};

/// What a transaction leaves behind besides the user's own writes. Written in one round trip, together with COMMIT.
struct changes
{
    std::vector<new_saga> sagas;
    std::vector<new_record> new_records;
    std::vector<step_record> records;
    std::vector<new_started> started;
    std::vector<started_id> settled;  // started steps that have ended
    std::vector<started_release> released;
    std::vector<std::string> progress;  // JSON arrays of other services' reports, as received
    std::vector<core::command> commands;
    std::vector<std::string> ended;    // the same, for sagas that their homes declare ended
    std::vector<std::string> expired;  // and for sagas of this home whose records are gone in other services
    std::vector<std::string> signals;  // the same, for steps that wait here
    std::vector<saga_change> saga_changes;
    std::vector<enqueued> messages;
    std::vector<parked_delivery> parked;
    std::optional<stored_response> response;
    std::vector<stored_reply> replies;
    std::vector<repeated_reply> repeated;
    std::vector<ports::contention> contention;
    std::vector<kept_body> bodies;  // written before anything that refers to them
};

/// How a transaction begins.
struct claim_options
{
    /// How long to wait for a transaction that holds one of the keys; if that is not enough for one of them, all are
    /// `in_flight`. Nothing: the session's lock_timeout.
    std::optional<std::chrono::milliseconds> key_wait{};

    /// From the claim to commit(): how long a statement waits for a lock. Nothing: the session's lock_timeout.
    std::optional<std::chrono::milliseconds> lock_wait{};

    /// Before anything else, wait until no other transaction of this database that takes turns is open.
    bool takes_turn{};
};

enum class transaction_state {
    open,
    aborted,  // a statement failed in it, and the caller went on
    lost,     // the connection is gone, and the transaction with it
    ended,    // by a COMMIT or ROLLBACK of the step's own
};

/// A database as one lane sees it. Order of calls: begin() or begin_request(), which open a transaction; then, as often
/// as wanted, unit(), savepoint() and undo_to_savepoint(); then commit(), optionally after finish_step(); or
/// rollback(). Each function asserts that.
class store
{
public:
    virtual ~store() = default;

    /// Connects if there is no connection. Throws fault{connection_lost}.
    virtual void connect() = 0;

    /// BEGIN and claim, in one round trip. Without items nothing is claimed; commit() still checks that it is the same
    /// transaction. With several, a step's own COMMIT fails: it would commit for all. Throws fault.
    virtual std::vector<claim_answer> begin(std::span<claim_item const> items, claim_options const& how = {}) = 0;

    /// The same for a request, with its stored response if there is one; such a key is not claimed again.
    virtual request_claim begin_request(claim_item const& item, std::optional<std::chrono::milliseconds> wait) = 0;

    /// What the transaction does from here on can be undone separately, until the next savepoint() or commit(). Throws
    /// fault: transaction_ended if the transaction of begin() is gone.
    virtual void savepoint() = 0;

    /// Undoes that, and releases the locks that it took. Throws as savepoint() does.
    virtual void undo_to_savepoint() = 0;

    /// The transaction that begin() opened, for the step.
    virtual detail::unit_of_work& unit() = 0;

    /// The server's clock when begin() claimed.
    virtual core::instant claimed_at() const = 0;

    /// The bytes of a body that is kept elsewhere, verified; inside a transaction or outside. Throws fault, and
    /// body_fault (ports/body_store.hpp), after which the transaction goes on.
    virtual std::string read_body(core::body_reference const& what) = 0;

    /// Numbers for the rows of `count` messages that the next commit() is to insert. Empty if none are available: then
    /// the outbox numbers them itself. Only commit() or rollback() may follow.
    virtual std::vector<std::int64_t> new_rows([[maybe_unused]] std::size_t count) { return {}; }

    /// Runs what the step has deferred until COMMIT (deferred constraints), in a round trip of its own. Optional, and
    /// slower; but what commit() throws afterwards is never the step's fault. Throws fault.
    virtual void finish_step() = 0;

    /// Writes `what` and commits, in one round trip, after making sure that it is still the transaction that claimed.
    /// Throws fault; after `in_doubt` the outcome is unknown, and begin() with the same items resolves it.
    virtual void commit(changes const& what) = 0;

    /// Writes `what` in a transaction of its own, without a claim.
    virtual void write(changes const& what) = 0;

    /// The state of the transaction that begin() opened, in a round trip. Only for failure paths: commit() checks for
    /// itself.
    virtual transaction_state state() noexcept = 0;

    /// Ends the transaction, if there is one, without its effects. Disconnects if it can't roll back.
    virtual void rollback() noexcept = 0;

    /// What steps have left in their session since the last call, as far as detected, and what to do instead, for
    /// people; empty if nothing. It is checked from time to time and reported once for each step, and is gone by the
    /// next begin() whether it was detected or not.
    virtual std::string left_behind() { return {}; }

    /// Classifies the exception being handled. To be called in a catch block.
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
        bool is_users{};  // a user's, for no service: if no queue is bound it is moved to skald.unrouted
        std::chrono::steady_clock::duration waited{};  // since it could be sent
    };

    struct deferral
    {
        std::int64_t id{};
        std::string reason;
        std::chrono::milliseconds delay{};
        bool is_unrouted{};  // a user's: moved to skald.unrouted, or dropped, as its row says
    };

    virtual ~outbox() = default;

    /// Takes what is due, at most `max`, into a transaction that stays open until resolve() or release(). No other
    /// relay sees these rows until then; if this process dies they are free again.
    virtual std::vector<row> take(std::size_t max) = 0;

    /// Deletes `confirmed`; `deferred` stay with a reason and come due later. All other taken rows are free at once; if
    /// nothing was taken, the rows may be any.
    virtual void resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) = 0;

    /// Gives back everything that was taken.
    virtual void release() noexcept = 0;
};

}  // namespace skald::ports
