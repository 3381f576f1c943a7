// The services of a definition in one process and on one thread, stepped by hand: real databases, a broker in memory,
// and a clock that the test moves.
#pragma once

#include <skald/batch.hpp>
#include <skald/definition.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/retry.hpp>
#include <skald/start.hpp>
#include <skald/step.hpp>
#include <skald/testing/check.hpp>
#include <skald/testing/crash_point.hpp>
#include <skald/testing/proof.hpp>
#include <skald/testing/step_alone.hpp>
#include <skald/testing/views.hpp>

#include <chrono>
#include <concepts>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::testing {

/// What a test builds: the services, their databases, and what happens to them.
///
/// Databases: each service of the definitions that are hosted has one of its own on the server, made at the first use
///            and dropped with the harness; those that a killed run left behind are dropped by the next. Nothing is
///            ever written to the database of the URL. The role must be allowed to create databases; one that is no
///            superuser may have the databases cloned between runs, which takes some hundred times as long.
/// Time:      a service asks its database what time it is. advance() moves every time that Skald has stored, and every
///            deadline that is under way, into the past by as much; your own tables and now() know nothing of it.
/// Threads:   one.
class harness
{
public:
    /// `database_url`: the server; empty: DATABASE_URL, or libpq's own variables. Connects to nothing yet.
    explicit harness(std::string database_url = {});
    ~harness();
    harness(harness const&) = delete;
    harness& operator=(harness const&) = delete;

    // --- What there is ---

    /// As worker::host(), for the service that the definition names.
    template <class Data, step_kind... Kinds, std::derived_from<compensatable_step<Data>> Step>
    harness& host(definition<Data, Kinds...> const& saga, compensatable<Data> const& step, Step object,
                  retry policy = {}, batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// The same for a pivot.
    template <class Data, step_kind... Kinds, std::derived_from<pivot_step<Data>> Step>
    harness& host(definition<Data, Kinds...> const& saga, pivot<Data> const& step, Step object, retry policy = {},
                  batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// The same for a retriable step.
    template <class Data, step_kind... Kinds, std::derived_from<retriable_step<Data>> Step>
    harness& host(definition<Data, Kinds...> const& saga, retriable<Data> const& step, Step object, retry policy = {},
                  batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// As worker::migrate(), of that service.
    harness& migrate(std::string const& service, std::string name, std::string_view sql);

    /// What is in the service's database before the first saga, behind its migrations.
    harness& given(std::string const& service, std::string_view sql);

    /// What steps do outside of their databases, for the proof.
    harness& watch(outside_effect what);

    /// A connection string of the service's database. It may be another one after rewind().
    std::string database_url(std::string const& service);

    /// Everything is as it was before the first saga: rows, queues, rules and counts.
    void rewind();

    // --- What happens ---

    /// Starts a saga in the database of its first step's service, in a transaction of its own. Returns its key.
    template <class Data, step_kind... Kinds>
    std::string start(definition<Data, Kinds...> const& saga, Data const& data, start_options const& options = {})
    {
        return start({saga.name, saga.version, saga.steps, detail::write_data(data)}, options);
    }

    /// The relays send what is due, and the delivery that has waited longest is settled. False: there was none.
    bool deliver_next();

    /// Until nothing is due and nothing waits. What is to come later, comes after advance().
    /// Returns how many there were.
    std::size_t deliver_all();

    /// The same, and the clock moves on to whatever comes later, until nothing is left. Returns how many there were.
    std::size_t run_to_the_end();

    /// So much later.
    void advance(std::chrono::milliseconds time);

    /// Puts copies of a message, out of sent() or waiting(), at the end of its queue.
    void replay(message_view const& what, int times = 1);

    /// Puts the deliveries of a recording, which `skald parked export` has printed, at the end of their queues, as the
    /// services received them. Returns how many. Throws data_error with the line and what to do where it is no
    /// recording, and std::invalid_argument where one is for a service that hosts nothing here.
    std::size_t replay_recorded(std::string_view lines);

    /// The next delivery that comes to this point dies there with its service, which starts again at once. `step`,
    /// where it is named: only a delivery of that name (message_view::name, without what numbers it).
    void crash_at(crash_point point, std::string_view step = {});

    /// From now on that step says no, after its own code has run; `.compensate` can't.
    void reject_at(std::string_view step, std::string reason = "the test says no");

    /// The first `times` attempts of that step throw, after its own code has run.
    void fail(std::string_view step, int times = std::numeric_limits<int>::max());

    /// An operator's order. Throws std::runtime_error where it is refused, and says why.
    void cancel(std::string const& key, std::string const& scope = {});

    // --- What there is to see ---

    /// Every message that the relays have published since the last rewind(), in order: twice where one died before it
    /// knew. What replay() puts into a queue is not among them.
    std::vector<message_view> sent() const;

    /// What is in the queues, after the relays have sent what is due.
    std::vector<message_view> waiting();

    /// The saga as its home knows it.
    saga_view saga(std::string const& key, std::string const& scope = {});

    /// What the guards know of its steps, in all services.
    std::vector<record_view> records(std::string const& key, std::string const& scope = {});

    /// The rows of a query in the service's database, in a transaction of its own.
    rows ask(std::string const& service, std::string const& sql);

    // --- What is expected ---

    /// Its saga_view::status.
    check_result saga_is(std::string const& key, std::string_view status);

    /// How many messages of that name are in sent().
    check_result was_sent(std::string_view name, std::size_t times = 1) const;

    /// How often the step's code was called, whatever became of it.
    check_result ran(std::string_view step, std::size_t times) const;

    /// Its record says `completed`, and one transaction of it was committed.
    check_result applied_once(std::string const& key, std::string_view step);

    /// No service has a message that the broker has not confirmed.
    check_result outboxes_are_empty();

    // --- One step alone ---

    /// A transaction in the service's database that will be rolled back.
    step_alone alone(std::string const& service);

    // --- The proof ---

    /// Runs the saga again and again, each time disturbed in another way, and compares what it leaves behind with what
    /// it leaves undisturbed: every message twice, several times, twice at once, late, and after its neighbour; and a
    /// crash at every point that it comes to. Each of these on the way forward, with a no at each step that may say it,
    /// a fault at each step once and for ever, and a cancel before each step. Rewinds before and after; rules of
    /// reject_at() and the like don't count.
    template <class Data, step_kind... Kinds>
    proof prove_exactly_once(definition<Data, Kinds...> const& saga, Data const& data,
                             proof_options const& options = {})
    {
        return prove({saga.name, saga.version, saga.steps, detail::write_data(data)}, options);
    }

private:
    struct scenario
    {
        std::string_view definition;
        int version;
        std::span<planned_step const> plan;
        std::string data;
    };

    template <class Data, step_kind... Kinds, class Step>
    harness& add(definition<Data, Kinds...> const& saga, std::string_view name, Step object, retry policy,
                 batching const& together)
    {
        return add(saga.name, saga.version, saga.steps, name, policy, together,
                   std::make_unique<detail::typed_step<Data, Step>>(std::move(object)));
    }

    harness& add(std::string_view definition, int version, std::span<planned_step const> plan, std::string_view step,
                 retry policy, batching const& together, std::unique_ptr<detail::hosted_step> hosted);
    std::string start(scenario const& what, start_options const& options);
    proof prove(scenario const& what, proof_options const& options);

    class implementation;
    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald::testing
