// What is due in the table: rows whose time has come, rows of other languages, rows that could not be dispatched from
// memory. The publish loop of this source is the relay.
//
// What it gives out stays in an open transaction until it is answered, so that no other relay takes it; a row is
// deleted only on its own confirm. Safe with any number of relays on one outbox.
#pragma once

#include "runtime/publish_source.hpp"

#include <deque>
#include <functional>
#include <unordered_set>

namespace skald::runtime {

class table_source final : public publish_source
{
public:
    /// Polls every `every`, or when woken: the first is the guarantee, the second is for speed. With two outboxes
    /// (connections to the same table) a batch is polled while the one before awaits its confirms; with one, they
    /// alternate.
    table_source(std::chrono::milliseconds every, std::vector<std::reference_wrapper<ports::outbox>> outboxes)
        : every_{every}, free_{std::move(outboxes)}
    {}

    std::string_view name() const override { return "table"; }
    std::vector<ports::outbox::row> poll(std::size_t max) override;
    std::size_t resolve(answers now) override;
    std::chrono::milliseconds max_wait() const override;
    bool is_idle() const override { return under_way_.empty(); }
    void release() noexcept override;

private:
    struct batch
    {
        ports::outbox* from;
        std::unordered_set<std::int64_t> unanswered;
        answers answered;
    };

    bool is_time();
    batch& batch_of(std::int64_t answered);

    std::chrono::milliseconds const every_;
    std::vector<std::reference_wrapper<ports::outbox>> free_;  // without a batch in hand
    std::deque<batch> under_way_;                              // the oldest first
    bool was_full_{};                                          // the last batch: there may be more after it
    clock::time_point next_poll_{};
};

}  // namespace skald::runtime
