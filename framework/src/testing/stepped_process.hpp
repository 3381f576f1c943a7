// What a process of a service consists of, without its threads: whoever has one decides what it does next.
#pragma once

#include "core/log.hpp"
#include "ports/store.hpp"
#include "ports/transport.hpp"
#include "runtime/executor.hpp"
#include "runtime/memory_source.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/registry.hpp"
#include "runtime/stop_flag.hpp"
#include "runtime/table_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

namespace skald::testing::inner {

/// Threads: one.
class stepped_process
{
public:
    /// Its connections to the broker are its own; the rest outlives it. `publishing`: how its relay sends.
    stepped_process(std::string service, runtime::registry const& steps, ports::store& store, ports::outbox& outbox,
                    std::unique_ptr<ports::publisher> publisher, std::unique_ptr<ports::subscription> deliveries,
                    core::logger& log, runtime::publish_options const& publishing = {});

    /// Sends what is due. Returns how many rows that were.
    std::size_t relay() { return relay_.drain(); }

    ports::subscription& deliveries() { return *deliveries_; }

    /// What the delivery is for.
    runtime::task route(ports::delivery const& d) const { return runtime::route(d, service_, steps_); }

    /// Of its only lane.
    runtime::executor& executor() { return executor_; }

    /// Of another lane, whose store that is.
    runtime::executor executor_on(ports::store& store, std::uint64_t seed = 2)
    {
        return {service_, store, out_, log_, std::mt19937_64{seed}};
    }

    /// Told of each part of a started step that follows.
    class part_listener
    {
    public:
        virtual ~part_listener() = default;
        /// Before it: "charge.call", "charge.look"; and its transaction: "charge.settle", "charge.arrived",
        /// "charge.timed_out", "charge.abandon"; "charge.call" again if the call is to be made again.
        virtual void enters(std::string const& part) = 0;
        /// A call has returned, and nothing of it is recorded yet.
        virtual void called() = 0;
    };

    /// Takes a started step of that kind that is due, makes its call or asks about it, and records what comes of it.
    /// False if none is due. `listener`: null: nobody listens.
    bool go_on(ports::started_steps& table, ports::started_kind kind, part_listener* listener = nullptr);

private:
    void record(runtime::task& one, part_listener* listener, std::string const& part);

    std::string service_;
    runtime::registry const& steps_;
    core::logger& log_;
    std::unique_ptr<ports::publisher> publisher_;
    std::unique_ptr<ports::subscription> deliveries_;
    runtime::memory_source out_;
    runtime::stop_flag stop_;
    std::mt19937_64 random_{1};
    runtime::executor executor_;
    runtime::table_source table_;
    runtime::publish_loop relay_;
};

}  // namespace skald::testing::inner
