// A store that does everything but commit: where it would, it looks at what the transaction has done, and rolls back.
#pragma once

#include "postgres/postgres_store.hpp"
#include "rehearsal/observer.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace skald::rehearsal {

/// Threads: one.
class rolled_back_store final : public ports::store
{
public:
    /// `preparation`: SQL, run in each transaction before its claim.
    rolled_back_store(postgres::connection_options options, std::string const& preparation, observer& watch);

    void connect() override { inner_.connect(); }
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const> items,
                                           ports::claim_options const& how) override;
    ports::request_claim begin_request(ports::claim_item const& item,
                                       std::optional<std::chrono::milliseconds> wait) override;
    void savepoint() override { inner_.savepoint(); }
    void undo_to_savepoint() override { inner_.undo_to_savepoint(); }
    detail::unit_of_work& unit() override { return inner_.unit(); }
    core::instant claimed_at() const override { return inner_.claimed_at(); }
    std::string read_body(core::body_reference const& what) override { return inner_.read_body(what); }
    void finish_step() override;
    void commit(ports::changes const& what) override;
    void write(ports::changes const& what) override;
    ports::transaction_state state() noexcept override { return inner_.state(); }
    void rollback() noexcept override;
    std::string left_behind() override { return inner_.left_behind(); }
    ports::fault classify_current() override { return inner_.classify_current(); }

    /// Of the last transaction.
    std::vector<ports::claim_answer> const& claimed() const { return claimed_; }
    ports::changes const& changes() const { return changes_; }
    observation const& seen() const { return seen_; }

    /// How long the step ran, in whichever transaction it did.
    std::chrono::steady_clock::duration ran() const { return ran_; }

private:
    void end_run() noexcept;

    postgres::postgres_store inner_;
    observer& watch_;
    std::vector<ports::claim_answer> claimed_;
    ports::changes changes_;
    observation seen_;
    std::optional<std::chrono::steady_clock::time_point> runs_from_;  // from the claim to what follows the step
    std::chrono::steady_clock::duration ran_{};
    bool is_open_{};
};

}  // namespace skald::rehearsal
