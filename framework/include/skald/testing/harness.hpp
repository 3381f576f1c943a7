// The services of a definition in one process and on one thread, stepped by the test: real databases, an in-memory
// broker, and a clock that the test moves.
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/data.hpp>
#include <skald/errors.hpp>
#include <skald/message.hpp>
#include <skald/saga.hpp>
#include <skald/service.hpp>
#include <skald/start.hpp>
#include <skald/testing/check.hpp>
#include <skald/testing/crash_point.hpp>
#include <skald/testing/proof.hpp>
#include <skald/testing/step_alone.hpp>
#include <skald/testing/views.hpp>

#include <chrono>
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::testing {

/// What a test builds: the services, their databases, and what happens to them.
///
/// Databases: each service of the hosted definitions has its own on the server, created on first use and dropped with
///            the harness; those that a killed run left behind are dropped by the next. Nothing is ever written to the
///            database of the URL. The role must be allowed to create databases; for one that is not a superuser the
///            databases may be cloned between runs, which takes some hundred times as long.
/// Time:      a service gets the time from its database. advance() moves every time that Skald has stored, and every
///            deadline in flight, that far into the past, and the steps' ctx.now() into the future; it does not affect
///            your own tables and SQL's now().
/// Threads:   one.
class harness
{
public:
    /// `database_url`: the server; empty: DATABASE_URL, or libpq's own variables. Connects to nothing yet.
    explicit harness(std::string database_url = {});
    ~harness();
    harness(harness const&) = delete;
    harness& operator=(harness const&) = delete;

    // --- Setup ---

    /// Runs the service that `make` returns, as run_service() does with the same function. It is called again after
    /// each crash: what the steps kept in memory is lost with the process. A service whose code the test does not have
    /// can be replaced by one of the test's own, with the same name and its steps. If it is there already, what it
    /// hosts is added to it, and what comes next begins anew, as after rewind().
    /// Throws configuration_error for a step that is hosted twice, and for migrations once its database has been made.
    harness& add(std::function<service()> make);

    /// The same for a service that was made already. Its steps and handlers survive crashes, with what they remember: a
    /// step that loses it in production passes here.
    harness& add(service what);

    /// Runs `sql` in the service's database before the first saga, after its migrations.
    /// Throws configuration_error once that database has been made.
    harness& given(std::string const& service, std::string_view sql);

    /// What steps do outside their databases, for the proof. Throws configuration_error for a name that is taken.
    harness& watch(outside_effect what);

    /// A connection string for the service's database. It may change with rewind().
    std::string database_url(std::string const& service);

    /// Restores everything to before the first saga: rows, queues, rules and counts.
    void rewind();

    // --- Actions ---
    //
    // What a test itself commits in a service's database, through ask() or a connection of its own (skald::start(),
    // skald::pause_saga()), is sent like what a step commits.

    /// Starts a saga in the database of its first step's service, in a transaction of its own. Returns its key. Throws
    /// data_error if Data has operator== and its JSON, read again, is something else: a member is not in the macro.
    template <class Data, step_kind... Kinds>
    std::string start(definition<Data, Kinds...> const& saga, Data const& data, start_options const& options = {})
    {
        return start({saga.name, saga.version, saga.steps, written_whole(data), detail::attributes_of(saga, data)},
                     options);
    }

    /// Puts a message into the queue of that service's message handler, as its sender does. What a service of this
    /// harness publishes with the routing key of one of its message_bindings gets there by itself.
    /// Throws configuration_error if the service has no such handler.
    void send(std::string const& service, std::string const& handler, received_message const& what);

    /// The relays send what is due, and the delivery that has waited longest is processed. If none waits, a started
    /// step that is due goes on: its call is made and its end recorded, or its wait is over. False: there was nothing.
    bool deliver_next();

    /// The same, except that the delivery of that name (message_view::name) overtakes those that have waited longer:
    /// messages arrive in any order. False: none of that name waits.
    bool deliver(std::string_view name);

    /// Repeats deliver_next() until nothing is due and nothing waits. What is due later needs advance(): another
    /// attempt, the end of a wait, a call whose service has crashed.
    /// Returns how many deliveries and started steps there were.
    std::size_t deliver_all();

    /// The same, also moving the clock on to what is due later, until nothing is left but calls of which nobody knows
    /// what they did, and sagas that are paused. Returns how many there were. Throws std::runtime_error with the step
    /// and its error once settle(), arrived() or timed_out() has failed 20 times: that is tried without end.
    std::size_t run_to_the_end();

    /// Moves the clock forward by `time`.
    void advance(std::chrono::milliseconds time);

    /// Puts copies of a message, out of sent() or waiting(), at the end of its queue.
    void replay(message_view const& what, int times = 1);

    /// Puts the deliveries of a recording, as printed by `skald parked export`, at the end of their queues, as the
    /// services received them. Returns how many. Throws data_error with the line and what to do if it is not a
    /// recording, and std::invalid_argument if one is for a service that hosts nothing here.
    std::size_t replay_recorded(std::string_view lines);

    /// Whether the steps hosted here can read each of these deliveries: a recording that is kept from an older version
    /// says whether a change of the data would park sagas that began with it. Delivers nothing. Throws as
    /// replay_recorded() does.
    check_result reads_recorded(std::string_view lines);

    /// The service crashes there with the next delivery that reaches this point, and restarts at once. `step`, if
    /// given: only for a delivery of that name (message_view::name, without its number), or for a part of a started
    /// step: `charge.call`, `charge.settle` (or `approve.arrived`, `approve.timed_out`), `charge.abandon`.
    void crash_at(crash_point point, std::string_view step = {});

    /// From now on that step rejects, after its own code has run; `.compensate` can't. `charge` is what an external
    /// step prepares, `charge.settle` its end.
    void reject_at(std::string_view step, std::string reason = "the test says no");

    /// The first `times` attempts of that step throw, after its own code has run.
    /// Of an external step: `charge` is prepare(), `charge.call` the call: it is in doubt then; also `charge.look`,
    /// whose answer is unknown then, and `charge.settle`.
    void fail(std::string_view step, int times = std::numeric_limits<int>::max());

    /// The first `times` calls of that step surely do not happen, as if the other system could not be reached: its
    /// call() is not run, and did_not_happen_error is thrown.
    void refuse_call(std::string_view step, int times = std::numeric_limits<int>::max());

    /// Gives a step that waits, or will wait, its signal, as one who asks the saga's home does.
    template <class Signal>
    signal_result signal(std::string const& key, std::string_view step, Signal const& body,
                         std::string const& scope = {})
    {
        return signal_as_json(key, step, detail::write_data(body), scope);
    }

    /// An operator's command. Throws std::runtime_error with the reason if it is refused.
    void cancel(std::string const& key, std::string const& scope = {});

    // --- Observations ---

    /// Every message that the relays have published since the last rewind(), in order: twice if a relay died before it
    /// knew. Messages from replay() are not included.
    std::vector<message_view> sent() const;

    /// The messages in the queues, after the relays have sent what is due.
    std::vector<message_view> waiting();

    /// The saga as its home knows it.
    saga_view saga(std::string const& key, std::string const& scope = {});

    /// The guards' records of its steps, in all services.
    std::vector<record_view> records(std::string const& key, std::string const& scope = {});

    /// The started steps of all services, in the order in which they are due.
    std::vector<started_view> started();

    /// The rows of a query in the service's database, in a transaction of its own.
    rows ask(std::string const& service, std::string const& sql);

    // --- Expectations ---

    /// Its saga_view::status.
    check_result saga_is(std::string const& key, std::string_view status, std::string const& scope = {});

    /// How many messages of that name are in sent().
    check_result was_sent(std::string_view name, std::size_t times = 1) const;

    /// How often the step's code was called, whatever its outcome. Of an external step: `charge` is prepare(),
    /// `charge.call`, `charge.look`, `charge.settle` and `charge.abandon` are the others; of one that waits
    /// `approve.arrived` and `approve.timed_out`.
    check_result ran(std::string_view step, std::size_t times) const;

    /// Its record says `completed`, and exactly one transaction that completed it was committed.
    check_result applied_once(std::string const& key, std::string_view step, std::string const& scope = {});

    /// No service has a message that the broker has not confirmed.
    check_result outboxes_are_empty();

    // --- One step alone ---

    /// A transaction in the service's database that will be rolled back.
    step_alone alone(std::string const& service);

    // --- The proof ---

    /// Runs the saga again and again, each time disturbed in a different way, and compares the final state with that of
    /// an undisturbed run: every message twice, several times, twice at once, late, and after its neighbour; and a
    /// crash at every point that it reaches. Each of these going forward, with a rejection at each step that may
    /// reject, a fault at each step once and permanently, and a cancel before each step. Rewinds before and after;
    /// rules of reject_at() and the like don't apply. Going forward undisturbed, nothing may be parked. Throws
    /// data_error as start() does, and std::invalid_argument for a name in the options that is not there.
    template <class Data, step_kind... Kinds>
    proof prove_exactly_once(definition<Data, Kinds...> const& saga, Data const& data,
                             proof_options const& options = {})
    {
        return prove({saga.name, saga.version, saga.steps, written_whole(data), detail::attributes_of(saga, data)},
                     options);
    }

    /// The same for sagas that began with an older version, and go on with the services of today: each (definition,
    /// version) of which the recording has a delivery of the first step, with the plan and the data of that delivery.
    /// Returns one proof for each. Throws as replay_recorded() does, and data_error if no delivery begins a saga, and
    /// for a step's delivery that can't be read, or begins one with data that is kept elsewhere.
    std::vector<proof> prove_recorded(std::string_view lines, proof_options const& options = {});

    /// The same for a message in place of a saga: its handler is disturbed likewise, and made to fail once and
    /// permanently. What the handler starts runs along. Undisturbed, the handler has to complete it.
    proof prove_exactly_once(std::string const& service, std::string const& handler, received_message const& what,
                             proof_options const& options = {});

private:
    template <class Data>
    static std::string written_whole(Data const& data)
    {
        auto text = detail::write_data(data);
        if constexpr (std::equality_comparable<Data>) {
            if (!(detail::read_data<Data>(text) == data))
                throw data_error{"the saga's data is not the same once it was written as JSON and read again: " + text +
                                 ". Has NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE all its members?"};
        }
        return text;
    }

    struct scenario
    {
        std::string_view definition;
        int version;
        std::span<planned_step const> plan;
        std::string data;
        std::string attributes;
    };

    std::string start(scenario const& what, start_options const& options);
    signal_result signal_as_json(std::string const& key, std::string_view step, std::string const& body,
                                 std::string const& scope);
    proof prove(scenario const& what, proof_options const& options);

    class implementation;
    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald::testing
