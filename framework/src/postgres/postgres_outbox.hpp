// The outbox as a publish loop sees it, over libpqxx.
#pragma once

#include "ports/store.hpp"
#include "postgres/connection.hpp"
#include "postgres/low_water.hpp"
#include "postgres/standby_wait.hpp"

#include <memory>

namespace skald::postgres {

/// Session settings. The table's statistics say nothing of its next moment: it is empty one minute, and has a million
/// rows the next. A plan that reads more of it than it takes is never right.
inline constexpr auto outbox_plans = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off";

class postgres_outbox final : public ports::outbox
{
public:
    /// `mark` is shared by the outboxes of one relay.
    explicit postgres_outbox(connection_options options,
                             std::shared_ptr<low_water> mark = std::make_shared<low_water>());
    ~postgres_outbox() override;

    std::vector<row> take(std::size_t max) override;
    void resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) override;
    void release() noexcept override;

private:
    template <class Work>
    auto guarded(Work work);
    void connect();
    void commit_taken();
    void connect_waiter();
    void wait_until_replicated();

    connection_options options_;
    std::shared_ptr<low_water> mark_;
    std::unique_ptr<connection> connection_;
    std::unique_ptr<connection> waiter_;  // where commits wait for standbys
    standby_wait wait_;
    bool in_transaction_{};
    std::size_t taken_{};  // in that transaction
};

}  // namespace skald::postgres
