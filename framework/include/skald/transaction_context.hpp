// What user code can do inside one of Skald's transactions: SQL, and messages that are sent if and only if it commits.
//
// This is the one public header that includes libpqxx.
#pragma once

#include <skald/trace.hpp>

#include <pqxx/result>
#include <pqxx/transaction_base>

#include <nlohmann/json.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace skald {

/// What happens to a published message for which no queue is bound. It is logged once for each destination, and
/// reported by `skald doctor`; it blocks nothing and does not count as backlog. See docs/events.md.
enum class unrouted {
    keep,  // moved to skald.unrouted, and sent once a queue is bound; the newest 10,000 of each destination
    drop,  // dropped, and counted
};

namespace detail {

/// What the storage adapter gives a running step.
class unit_of_work
{
public:
    virtual ~unit_of_work() = default;
    virtual pqxx::transaction_base& tx() = 0;
    /// The name under which `text` is prepared on this connection; prepares it on first use.
    virtual std::string const& prepared(std::string_view text) = 0;
    virtual std::chrono::sys_time<std::chrono::microseconds> now() const = 0;
};

struct published_message
{
    std::string destination;
    std::string type;
    std::string body;
    unrouted if_unrouted{};
};

// libpqxx 6 has no string_view parameters.
template <class T>
decltype(auto) as_parameter(T const& value)
{
    if constexpr (std::is_same_v<T, std::string_view>) return std::string{value};
    else return static_cast<T const&>(value);
}

}  // namespace detail

/// The base of step_context and request_context.
///
/// Lifetime:    the call that received it. Keep no reference to it.
/// Threads:     the thread that received it.
/// Transaction: Skald begins it and Skald ends it. A step that runs COMMIT or ROLLBACK itself is detected and parked.
///              An SQL error aborts the transaction even if the exception is caught: to go on after one, use a
///              SAVEPOINT. A step that swallows one without it can't commit by accident; it counts as a fault.
/// Isolation:   READ COMMITTED.
class transaction_context
{
public:
    transaction_context(transaction_context const&) = delete;
    transaction_context& operator=(transaction_context const&) = delete;

    /// Runs one statement with $1, $2, ... It is prepared on its first use on each connection and reused after that, so
    /// `text` should be a constant; values belong in `args`.
    /// Throws: what pqxx throws. Let it pass: Skald classifies it and retries the step.
    template <class... Args>
    pqxx::result sql(std::string_view text, Args const&... args);

    /// The transaction itself, for what sql() can't express. It can't be committed through this object.
    pqxx::transaction_base& tx() { return unit_.tx(); }

    /// Sends a message of yours when this transaction commits, at least once. `destination` is a routing key with which
    /// a queue of yours is bound to the exchange `skald`; not a Skald service's, which runs steps and parks everything
    /// else. The message's key is `<derived key>.<n>.<type>`, n counting the messages of this step from 1: at most 255
    /// bytes in all. A body of more than 1 MiB goes by a reference, which a message handler of this service reads, and
    /// whoever shares the store of large bodies (docs/bodies.md); without such a store, and beyond SKALD_BODY_MAX, the
    /// step fails when it commits. `if_unrouted`: what happens to it if no queue is bound.
    /// Throws: std::invalid_argument for a type that is empty or has a ':', which would make that key read as a step's.
    void publish(std::string_view destination, std::string_view type, nlohmann::json const& body,
                 unrouted if_unrouted = unrouted::keep)
    {
        if (type.empty() || type.find(':') != std::string_view::npos)
            throw std::invalid_argument{"the type of a published message must not be empty or have a ':'"};
        published_.push_back({std::string{destination}, std::string{type}, body.dump(), if_unrouted});
    }

    /// When this transaction began, by the database's clock, which is the same for every process. Decide by this what
    /// depends on the time: in tests it is the clock that skald::testing::harness::advance() moves.
    std::chrono::sys_time<std::chrono::microseconds> now() const { return unit_.now(); }

    /// The tenant, user or organisation that the key belongs to; '' if unused.
    std::string const& scope() const { return scope_; }

    /// Where this work belongs in a distributed trace: what it calls passes that on. Empty if there is no trace.
    trace_context const& trace() const { return trace_; }

    /// The messages passed to publish(), for Skald.
    std::vector<detail::published_message> const& published() const { return published_; }

protected:
    /// Only the two derived classes are created, by Skald.
    transaction_context(detail::unit_of_work& unit, std::string scope, trace_context trace)
        : unit_{unit}, scope_{std::move(scope)}, trace_{std::move(trace)}
    {}
    ~transaction_context() = default;

    /// For another context in the same transaction.
    detail::unit_of_work& unit() { return unit_; }

private:
    detail::unit_of_work& unit_;
    std::string scope_;
    trace_context trace_;
    std::vector<detail::published_message> published_;
};

template <class... Args>
pqxx::result transaction_context::sql(std::string_view text, Args const&... args)
{
    auto const& name = unit_.prepared(text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // libpqxx 7.10 prefers exec(prepped); 6.4 has only this
    return unit_.tx().exec_prepared(name, detail::as_parameter(args)...);
#pragma GCC diagnostic pop
}

}  // namespace skald
