// Several services in one process, stepped by the test: real databases, in-memory transport, no threads, no waiting.
#pragma once

#include "core/envelope.hpp"
#include "core/log.hpp"
#include "memory/memory_transport.hpp"
#include "postgres/postgres_outbox.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "runtime/lane.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/registry.hpp"
#include "runtime/table_source.hpp"
#include "support/database.hpp"
#include "support/event_log.hpp"

#include <skald/skald.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace skald::test {

/// Everything that one service has, without its threads.
class service
{
public:
    service(std::string name, memory::memory_transport& transport);

    /// Hosts a step, tried `attempts_max` times with no wait in between.
    template <class Data, step_kind... Kinds, step_kind Kind, class Step>
    void host(definition<Data, Kinds...> const& saga, step_handle<Data, Kind> const& handle, Step step,
              int attempts_max = 3)
    {
        using namespace std::chrono_literals;
        host_with(saga, handle, std::move(step), {.attempts_max = attempts_max, .first = 0ms, .longest = 0ms});
    }

    template <class Data, step_kind... Kinds, step_kind Kind, class Step>
    void host_with(definition<Data, Kinds...> const& saga, step_handle<Data, Kind> const& handle, Step step,
                   retry policy)
    {
        auto options = options_of_steps;
        options.retry = policy;
        steps_.add(saga.name, handle.name,
                   {std::make_shared<detail::typed_step<Data, Step>>(std::move(step)), std::move(options), Kind,
                    saga.version});
    }

    step_options options_of_steps;  // of those that are hosted from now on; without their retries

    /// Moves what is due to the broker; returns how many rows were sent.
    std::size_t relay_due();

    /// Takes one delivery and processes it. False if none was waiting.
    bool settle_one();

    /// Takes all that wait, at most `max`, and processes them as a lane does: together, then one by one those that are
    /// left. Returns how many there were.
    std::size_t settle_many(std::size_t max = 32);

    /// The same, with these in addition.
    std::size_t settle_with(std::vector<ports::delivery> all);

    /// All that wait, for an executor of the test's own.
    std::vector<ports::delivery> take_all();
    runtime::executor executor_on(ports::store& store);

    /// Of the store, since it connected.
    std::uint64_t round_trips() { return store_.open().round_trips(); }

    /// Processes a delivery on a connection of its own, as another lane would.
    void settle_apart(ports::delivery const& d);

    /// One try, as a lane's. Throws ports::fault if it is not processed.
    void settle(ports::delivery const& d) { settle_on(executor_, d); }
    void settle_on(runtime::executor& lane, ports::delivery const& d) const;

    /// What the deliveries are for, as a process determines it.
    std::vector<runtime::task> read(std::vector<ports::delivery> const& all) const;

    /// Lanes as a worker has them, each a thread with a connection of its own, until this is destroyed.
    class running_lanes
    {
    public:
        running_lanes(service& of, std::size_t count, std::size_t batch_max = 32,
                      std::chrono::milliseconds patience = std::chrono::seconds{40});
        ~running_lanes();

    private:
        runtime::stop_flag stop_;
        runtime::dispatcher work_;
        std::vector<std::thread> threads_;
    };

    /// Makes every message that waits for its time due now.
    void make_due() const { db.run("UPDATE skald.outbox SET due_at = clock_timestamp()"); }

    event_log const& log() const { return log_; }

    std::string const name;
    database const db;

private:
    postgres::connection_options options() const;
    void settle_all(std::vector<ports::delivery> all);

    event_log log_;
    runtime::registry steps_;
    runtime::memory_source out_;
    runtime::stop_flag stop_;
    postgres::postgres_store store_;
    postgres::postgres_outbox outbox_;
    std::unique_ptr<ports::publisher> publisher_;
    std::unique_ptr<ports::subscription> deliveries_;
    runtime::executor executor_;
    runtime::table_source table_;
    runtime::publish_loop relay_;
};

class simulation
{
public:
    explicit simulation(std::vector<std::string> const& services);

    service& at(std::string const& name) { return *services_.at(name); }
    memory::memory_transport& transport() { return transport_; }

    /// Starts a saga at the first service, in a transaction of its own.
    template <class Definition, class Data>
    void start(Definition const& saga, Data const& data, std::string const& key)
    {
        pqxx::connection c{home().db.url()};
        pqxx::work tx{c};
        skald::start(tx, saga, data, {key, ""});
        tx.commit();
    }

    /// Relays and processes until nothing is due and nothing is waiting.
    void run();

    /// The next delivery of a service, from a message that was captured or made by the test.
    static ports::delivery delivery_of(core::message m, std::string problem = {});

    /// The last message of that type that went over the broker.
    core::message last_sent(std::string const& type) const;

    std::string saga_status(std::string const& key);
    std::string parked();

private:
    service& home() { return *services_.at(home_); }

    memory::memory_transport transport_;
    std::map<std::string, std::unique_ptr<service>> services_;
    std::string home_;
};

}  // namespace skald::test
