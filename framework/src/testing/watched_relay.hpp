// The relay's two ports, saying where they are.
#pragma once

#include "memory/memory_transport.hpp"
#include "postgres/postgres_outbox.hpp"
#include "testing/stage.hpp"

#include <functional>
#include <memory>
#include <string>

namespace skald::testing::inner {

class watched_outbox final : public ports::outbox
{
public:
    using naming = std::function<std::string(core::message const&)>;

    watched_outbox(postgres::connection_options options, stage& at, naming name)
        : inner_{std::move(options)}, stage_{at}, name_{std::move(name)}
    {}

    std::vector<row> take(std::size_t max) override
    {
        auto rows = inner_.take(max);
        if (!rows.empty()) stage_.enter(name_(rows.front().message));
        return rows;
    }

    void settle(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) override
    {
        if (!confirmed.empty()) stage_.reach(crash_point::before_delete);
        inner_.settle(confirmed, deferred);
        if (!confirmed.empty()) stage_.reach(crash_point::after_delete);
    }

    void release() noexcept override { inner_.release(); }

    /// Its process is gone, and its transaction with it. No code of a user's has ever run on this connection, so that
    /// the database can't tell whether it was closed: it is kept, since a new one takes long.
    void die() { inner_.release(); }

private:
    postgres::postgres_outbox inner_;
    stage& stage_;
    naming name_;
};

/// Publishes to services, and to queues that a step publishes to: those are made when they are first met.
class watched_publisher final : public ports::publisher
{
public:
    watched_publisher(memory::memory_transport& transport, stage& at)
        : transport_{transport}, stage_{at}, inner_{transport.open_publisher()}
    {}

    bool available() override { return inner_->available(); }
    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override { return inner_->collect(wait); }
    void interrupt() noexcept override { inner_->interrupt(); }
    std::string trouble() const override { return inner_->trouble(); }

    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline) override
    {
        stage_.reach(crash_point::before_publish);
        for (auto const& one : messages)
            if (!one.message.destination.empty()) transport_.declare(one.message.destination);
        inner_->send(messages, deadline);
        stage_.reach(crash_point::before_confirm);
    }

private:
    memory::memory_transport& transport_;
    stage& stage_;
    std::unique_ptr<ports::publisher> inner_;
};

}  // namespace skald::testing::inner
