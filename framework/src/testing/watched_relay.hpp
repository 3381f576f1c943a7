// The relay's two ports, which report each point that they reach to the fault plan.
#pragma once

#include "memory/memory_transport.hpp"
#include "postgres/postgres_outbox.hpp"
#include "testing/fault_plan.hpp"

#include <functional>
#include <memory>
#include <string>

namespace skald::testing::inner {

class watched_outbox final : public ports::outbox
{
public:
    using naming = std::function<std::string(core::message const&)>;

    watched_outbox(postgres::connection_options options, fault_plan& at, naming name)
        : inner_{std::move(options)}, fault_plan_{at}, name_{std::move(name)}
    {}

    std::vector<row> take(std::size_t max) override
    {
        auto rows = inner_.take(max);
        if (!rows.empty()) fault_plan_.enter(name_(rows.front().message));
        return rows;
    }

    void resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) override
    {
        if (!confirmed.empty()) fault_plan_.reach(crash_point::before_delete);
        inner_.resolve(confirmed, deferred);
        if (!confirmed.empty()) fault_plan_.reach(crash_point::after_delete);
    }

    void release() noexcept override { inner_.release(); }

    /// Simulates a crash: the transaction is lost. No user code has ever run on this connection, so the database can't
    /// tell whether it was closed. It is kept, because opening a new one takes long.
    void die() { inner_.release(); }

private:
    postgres::postgres_outbox inner_;
    fault_plan& fault_plan_;
    naming name_;
};

/// Publishes to services, and to queues that a step publishes to; those are created at first use.
class watched_publisher final : public ports::publisher
{
public:
    watched_publisher(memory::memory_transport& transport, fault_plan& at)
        : transport_{transport}, fault_plan_{at}, inner_{transport.open_publisher()}
    {}

    bool available() override { return inner_->available(); }
    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override { return inner_->collect(wait); }
    void interrupt() noexcept override { inner_->interrupt(); }
    std::string last_error() const override { return inner_->last_error(); }

    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline) override
    {
        fault_plan_.reach(crash_point::before_publish);
        for (auto const& one : messages)
            if (!one.message.destination.empty()) transport_.declare(one.message.destination);
        inner_->send(messages, deadline);
        fault_plan_.reach(crash_point::before_confirm);
    }

private:
    memory::memory_transport& transport_;
    fault_plan& fault_plan_;
    std::unique_ptr<ports::publisher> inner_;
};

}  // namespace skald::testing::inner
