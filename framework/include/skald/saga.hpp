// What has become of a saga, and commands for it, in a transaction of your own on its home's database. The same is
// there over HTTP (GET and DELETE /sagas/{key}), and on the command line (`skald saga`).
#pragma once

#include <skald/detail/data.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace pqxx {
class transaction_base;
}

namespace skald {

/// A saga as its home knows it: a step that has ended elsewhere counts once its report has arrived.
struct saga_info
{
    std::string scope;       // of its key
    std::string key;         // within its scope
    std::string definition;  // its name: "place-order"
    int version{1};          // of the definition, when it started
    std::string status;      // running, compensating, stuck, unknown, completed, compensated
    std::string reason;      // of a rejection, a failure or a command; for people
    std::string data;        // JSON, as at its start

    std::chrono::sys_time<std::chrono::microseconds> started_at;  // by the database's clock, like the next two
    std::optional<std::chrono::sys_time<std::chrono::microseconds>> deadline_at;  // nothing: none
    std::optional<std::chrono::sys_time<std::chrono::microseconds>> finished_at;  // nothing: it has not ended
};

/// Optional arguments of a command; all are for people, who see them in `skald saga show` and in skald.audit.
struct command_options
{
    std::string scope{};   // the saga's
    std::string reason{};  // why
    std::string by{};      // who gives it, in addition to the database's user
};

/// Nothing if no saga with this key has its home in this database, or if its records have been purged.
/// Transaction: one round trip, which writes nothing. Throws what pqxx throws.
std::optional<saga_info> find_saga(pqxx::transaction_base& tx, std::string_view key, std::string_view scope = {});

/// Compensates a saga that is not past its pivot: no further step of it begins. It takes effect in each service when
/// the command arrives there.
///
/// Transaction: one round trip; the command exists if and only if `tx` commits. It locks the saga's row, and its steps
///              here that have started and not ended: where there are some, the server ends the session if it stands
///              still in `tx` for longer than the shortest of their leases (skald/call.hpp), so that a process that is
///              stopped there holds up no call.
/// Throws:      command_refused if there is no such saga, it has ended, compensates already or is past its pivot; what
///              pqxx throws. After command_refused `tx` is unchanged, and can go on.
void cancel_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options = {});

/// Puts back the parked delivery on which a saga is stuck, with a new set of attempts.
/// Throws: command_refused if there is no such saga, it has ended, no step of it is parked, or what was parked has been
///         dropped or, in this database, may not be put back. Otherwise as cancel_saga().
void retry_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options = {});

/// From now on no step of it begins, until resume_saga() or cancel_saga().
/// Throws: command_refused if there is no such saga, it has ended, or was cancelled and is not past its pivot.
///         Otherwise as cancel_saga().
void pause_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options = {});

/// Ends a pause.
/// Throws: command_refused as pause_saga() does, and if it was never paused. Otherwise as cancel_saga().
void resume_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options = {});

/// What became of a signal.
enum class signal_result {
    taken,      // it is kept for the step
    sent,       // it is on its way to the service that has the step, which alone knows whether that ever waits
    duplicate,  // the same one was there already
    mismatch,   // another one was: the first counts
    late,       // the step has ended, or the saga has
    no_saga,    // none of that key was started in this database
    no_step,    // the saga has no step of that name
    no_wait,    // this service has the step, and it never waits for a signal
};

/// Sends what a wait_step waits for (skald/wait_step.hpp). `body` is JSON that fits the step's Signal.
/// Transaction: one round trip on the home's database; the signal exists if and only if `tx` commits. Where the step
///              waits in this database, its row is locked: the server ends the session if it stands still in `tx` for
///              longer than the step's lease.
/// Throws: data_error for a body that is no JSON; what pqxx throws.
signal_result signal_saga(pqxx::transaction_base& tx, std::string_view key, std::string_view step,
                          std::string_view body, std::string_view scope = {});

/// Says what has become of a call that is in doubt, as an operator or a webhook of the other system knows it: it
/// happened, with `result` (JSON that fits the step's Result); or, with nothing, it did not and will not.
/// `step` is the step's name, or that with ".compensate".
/// Transaction: one round trip on the database of **the step's service**, otherwise as signal_saga().
/// Throws: command_refused if nothing of it is in doubt; data_error for a result that is no JSON; what pqxx throws.
void resolve_call(pqxx::transaction_base& tx, std::string_view key, std::string_view step,
                  std::optional<std::string_view> result, command_options const& options = {});

/// That it happened, with a result whose type is checked here: `Step` is the class of the step, or of what undoes it.
/// A result in JSON is checked when it is recorded, by a process that has the step. Otherwise as the other.
template <class Step>
void resolve_call(pqxx::transaction_base& tx, std::string_view key, std::string_view step,
                  typename Step::result_type const& result, command_options const& options = {})
{
    std::string const json = detail::write_data(result, "the result");
    resolve_call(tx, key, step, std::optional<std::string_view>{json}, options);
}

}  // namespace skald
