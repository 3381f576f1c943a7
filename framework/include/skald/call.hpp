// A call to another system, made by an external step (skald/external_step.hpp): what it knows, and how it ends when it
// does not return a result.
#pragma once

#include <skald/trace.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace skald {

/// Thrown by call(): the other system has surely done nothing, and will not: the connection was refused, or it answered
/// that it did not do it. An attempt has failed; the call is made again after a wait, without a look(). Any other
/// exception leaves the outcome unknown. A time-out is never a no.
struct did_not_happen_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Thrown by call_context::heartbeat(): the call should end now. Let it pass.
struct call_stopped : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

namespace detail {

/// What the process gives a running call.
class call_owner
{
public:
    virtual ~call_owner() = default;
    /// Throws call_stopped.
    virtual void heartbeat(std::optional<nlohmann::json> const& checkpoint) = 0;
    virtual bool is_stopped() const noexcept = 0;
};

}  // namespace detail

/// What call() and look() know. There is no transaction and no database connection.
/// Lifetime: the call that received it.
/// Threads:  heartbeat() and lost() may be called from any thread while the call lasts; the others never change.
class call_context
{
public:
    /// Created by Skald.
    call_context(detail::call_owner& owner, std::string scope, std::string saga_key, std::string key, int attempt,
                 std::optional<nlohmann::json> checkpoint, trace_context trace)
        : owner_{owner}, scope_{std::move(scope)}, saga_key_{std::move(saga_key)}, key_{std::move(key)},
          attempt_{attempt}, checkpoint_{std::move(checkpoint)}, trace_{std::move(trace)}
    {}
    call_context(call_context const&) = delete;
    call_context& operator=(call_context const&) = delete;

    /// `key:step`, or `key:step.compensate`: the same for every attempt and every owner. It is the idempotency key for
    /// the other system.
    std::string const& key() const { return key_; }

    std::string const& saga_key() const { return saga_key_; }  // within scope()
    std::string const& scope() const { return scope_; }        // '' if unused
    int attempt() const { return attempt_; }                   // of the call, from 1
    trace_context const& trace() const { return trace_; }      // to pass on

    /// What the latest heartbeat() kept, in this process or in one that had the call before; nothing if none did.
    std::optional<nlohmann::json> const& checkpoint() const { return checkpoint_; }

    /// Says that the work goes on, and keeps where it is: durable when this returns. One is due within
    /// call_options::silence. Blocks for a round trip to the database: with a checkpoint each time, and without one
    /// about once a second, however often it is called.
    /// Throws call_stopped if somebody else has the call now, or if it was cancelled, paused, is past its deadline, or
    /// its process stops: end it, by letting the exception pass. What was done until then is found out by look().
    /// Throws data_error for a checkpoint of more than 1 MiB, or one that can't be written (U+0000, no UTF-8, NaN).
    void heartbeat(std::optional<nlohmann::json> const& checkpoint = std::nullopt) { owner_.heartbeat(checkpoint); }

    /// Whether heartbeat() would throw, as far as known here, without asking.
    bool lost() const noexcept { return owner_.is_stopped(); }

private:
    detail::call_owner& owner_;
    std::string scope_, saga_key_, key_;
    int attempt_;
    std::optional<nlohmann::json> checkpoint_;
    trace_context trace_;
};

/// What did_not_happen() returns.
struct did_not_happen_answer
{};

/// What unknown() returns.
struct unknown_answer
{
    std::string why;  // for people; may be empty
};

/// What look() found out about an earlier call.
template <class Result>
class probe
{
public:
    probe(Result happened) : what_{std::move(happened)} {}  // `return skald::happened(receipt);`
    probe(did_not_happen_answer what) : what_{what} {}      // `return skald::did_not_happen();`
    probe(unknown_answer what) : what_{std::move(what)} {}  // `return skald::unknown("404: too early to tell");`

    Result const* happened() const { return std::get_if<Result>(&what_); }                 // nullptr if not
    unknown_answer const* unknown() const { return std::get_if<unknown_answer>(&what_); }  // likewise

private:
    std::variant<Result, did_not_happen_answer, unknown_answer> what_;
};

/// It was done, with this result.
template <class Result>
Result happened(Result result)
{
    return result;
}

/// It was not done, **and will not be**: a request that is still under way there may yet be carried out. Where the
/// other system can't tell, the answer is unknown().
inline did_not_happen_answer did_not_happen()
{
    return {};
}

/// It can't be told now. The other system is asked again, less and less often; call() is not called meanwhile.
inline unknown_answer unknown(std::string why = {})
{
    return {std::move(why)};
}

/// How calls are made, of step_options. Times are by the database's clock.
struct call_options
{
    /// What is called, as declared by service::dependency(); empty: something that has no limits.
    std::string dependency{};

    /// How long another process waits before it takes over from one that has died. The process that makes the call
    /// renews the lease by itself, three times in this time.
    std::chrono::milliseconds lease{15'000};

    /// How long a call may neither end nor heartbeat(): then its lease is not renewed any more, and somebody else takes
    /// over. Longer than the time limit of the call itself.
    std::chrono::milliseconds silence{300'000};

    std::chrono::milliseconds look_first{1'000};     // before look() is asked, and after its first unknown()
    std::chrono::milliseconds look_longest{60'000};  // between two, however often it has said unknown()

    /// From when on a saga is shown as `unknown`: how long look() has said unknown(). It is asked all the same.
    std::chrono::milliseconds unknown_after{600'000};
};

}  // namespace skald
