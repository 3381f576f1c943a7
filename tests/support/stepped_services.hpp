// Services in one process, which a test steps and whose insides it reaches: the test kit's parts, on real databases and
// a broker in memory. What a user of the kit could say is said with skald::testing::harness instead.
#pragma once

#include "memory/memory_transport.hpp"
#include "postgres/postgres_outbox.hpp"
#include "postgres/postgres_started.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/started_loop.hpp"
#include "support/database.hpp"
#include "support/event_log.hpp"
#include "testing/stepped_process.hpp"
#include "worker/service_parts.hpp"

#include <skald/skald.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace skald::test {

inline ports::delivery delivery_of(core::message m)
{
    ports::delivery d;
    d.message = std::move(m);
    return d;
}

/// A delivery was tried once, and is to be tried again.
struct not_processed : std::runtime_error
{
    not_processed(runtime::failure w, std::string const& error) : std::runtime_error{error}, why{w} {}
    runtime::failure why;
};

class stepped_service
{
public:
    stepped_service(std::string name, memory::memory_transport& transport);

    /// Hosts a step as a service does.
    template <class Data, step_kind... Kinds, class Handle, class Step>
    void host(definition<Data, Kinds...> const& saga, Handle const& handle, Step step)
    {
        host_with(saga, handle, std::move(step));
    }
    /// The same, with what undoes it.
    template <class Data, step_kind... Kinds, class Handle, class... Objects>
    void host_with(definition<Data, Kinds...> const& saga, Handle const& handle, Objects... objects)
    {
        skald::service one{name};
        if (auto const& called = options_of_steps.call.dependency; !called.empty()) one.dependency(called);
        one.host(saga, handle, std::move(objects)..., options_of_steps);
        for (auto& hosted : one.parts().steps) steps_.add(hosted.definition, hosted.name, std::move(hosted.hosted));
    }

    /// Of those that are hosted from now on. A step is tried three times with no wait in between.
    step_options options_of_steps{.retry = {.attempts_max = 3, .first = {}, .longest = {}}};

    /// Sends what is due to the broker; returns how many rows were sent.
    std::size_t relay_due() { return process_.relay(); }

    /// Takes one delivery and processes it. False if none was waiting.
    bool process_one();

    /// Takes all that wait, at most `max`, and processes them as a lane does: together, then one by one those that are
    /// left. Returns how many there were.
    std::size_t process_all(std::size_t max = 32);

    /// The same, with these before them.
    std::size_t process_all_with(std::vector<ports::delivery> all);

    /// One try of a lane. Throws not_processed.
    void process(ports::delivery const& d) { process_on(process_.executor(), d); }
    void process_on(runtime::executor& lane, ports::delivery const& d) const;

    /// On a connection of its own, as another lane would at the same time.
    void process_apart(ports::delivery const& d);

    /// All that wait, for an executor of the test's own.
    std::vector<ports::delivery> take_all();
    runtime::executor executor_on(ports::store& store) { return process_.executor_on(store); }

    /// What the deliveries are for, as a process determines it.
    std::vector<runtime::task> route(std::vector<ports::delivery> const& all) const;

    /// Goes on with one started step that is due. False if none is.
    bool go_on(ports::started_kind kind = ports::started_kind::call) { return process_.go_on(started_, kind); }

    /// Its table, for an owner of the test's own; and the end of such a one, as that owner records it.
    ports::started_steps& started() { return started_; }
    void record(runtime::task one);

    /// As if all leases had ended, and all waits were over.
    void make_started_due() const;

    /// Makes every message that waits for its time due now.
    void make_due() const { db.run("UPDATE skald.outbox SET due_at = clock_timestamp()"); }

    /// Of the store, since it connected.
    std::uint64_t round_trips() { return store_.open().round_trips(); }

    event_log const& log() const { return log_; }

    std::string const name;
    database const db;

private:
    friend class running_lanes;
    friend class running_calls;

    postgres::connection_options options(std::chrono::milliseconds lock_timeout) const;
    void process_together(std::vector<ports::delivery> all);

    event_log log_;
    runtime::registry steps_;
    postgres::postgres_store store_;
    postgres::postgres_outbox outbox_;
    postgres::postgres_started started_;
    testing::inner::stepped_process process_;
};

/// Lanes as a worker has them, each a thread with a connection of its own, until this is destroyed.
class running_lanes
{
public:
    running_lanes(stepped_service& of, std::size_t count, std::size_t batch_max = 32,
                  std::chrono::milliseconds patience = std::chrono::seconds{40});
    ~running_lanes();

private:
    runtime::stop_flag stop_;
    runtime::dispatcher work_;
    std::vector<std::thread> threads_;
};

/// The threads of a process that make calls and go on with waits, with connections of their own, until this is
/// destroyed.
class running_calls
{
public:
    explicit running_calls(stepped_service& of, std::map<std::string, dependency_limits> const& limits = {},
                           std::size_t calls = 4);
    ~running_calls();

    runtime::started_loop& loop() { return loop_; }

private:
    postgres::postgres_started table_, heartbeats_;
    runtime::started_loop loop_;
    std::vector<std::thread> threads_;
};

class stepped_services
{
public:
    explicit stepped_services(std::vector<std::string> const& names);

    stepped_service& at(std::string const& name) { return *services_.at(name); }
    memory::memory_transport& transport() { return transport_; }

    /// Starts a saga at the first service, in a transaction of its own.
    template <class Definition, class Data>
    void start(Definition const& saga, Data const& data, start_options const& options)
    {
        pqxx::connection c{home().db.url()};
        pqxx::work tx{c};
        skald::start(tx, saga, data, options);
        tx.commit();
    }
    template <class Definition, class Data>
    void start(Definition const& saga, Data const& data, std::string const& key)
    {
        start(saga, data, start_options{.key = key});
    }

    /// Relays and processes until nothing is due and nothing is waiting.
    void run();

    /// The last message of that type that went over the broker.
    core::message last_sent(std::string const& type) const;

    std::string saga_status(std::string const& key);
    std::string parked();

private:
    stepped_service& home() { return *services_.at(home_); }

    memory::memory_transport transport_;
    std::map<std::string, std::unique_ptr<stepped_service>> services_;
    std::string home_;
};

}  // namespace skald::test
