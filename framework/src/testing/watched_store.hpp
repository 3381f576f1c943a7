// A real store that reports each point it reaches, crashes there, and loses its connection at COMMIT, as planned.
#pragma once

#include "postgres/postgres_store.hpp"
#include "testing/fault_plan.hpp"
#include "testing/service_database.hpp"

#include <functional>
#include <memory>
#include <string>

namespace skald::testing::inner {

/// Threads: one.
class watched_store final : public ports::store, private detail::unit_of_work
{
public:
    /// `committed` is called right after COMMIT; `left` after a transaction whose step left something in its session.
    /// `database`: must outlive it.
    watched_store(service_database& database, fault_plan& at, std::function<void()> committed,
                  std::function<void(std::string const& step, std::string const& what)> left);

    void connect() override { inner_->connect(); }
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const> items,
                                           ports::claim_options const& how) override;
    ports::request_claim begin_request(ports::claim_item const& item,
                                       std::optional<std::chrono::milliseconds> wait) override;
    void savepoint() override { inner_->savepoint(); }
    void undo_to_savepoint() override;
    detail::unit_of_work& unit() override { return *this; }
    core::instant claimed_at() const override { return inner_->claimed_at(); }
    std::string read_body(core::body_reference const& what) override { return inner_->read_body(what); }
    std::vector<std::int64_t> new_rows(std::size_t count) override { return inner_->new_rows(count); }
    void finish_step() override { inner_->finish_step(); }
    void commit(ports::changes const& what) override;
    void write(ports::changes const& what) override;
    ports::transaction_state state() noexcept override { return inner_->state(); }
    void rollback() noexcept override;
    ports::fault classify_current() override;

    /// After every transaction from now on, or not at all.
    void inspect_sessions(bool does);

    /// By how much the clock that steps see is ahead of the server's.
    void set_clock(std::chrono::milliseconds ahead) { ahead_ = ahead; }

    /// Simulates a crash: an open transaction is rolled back, as the server does when its connection is closed. The
    /// connection is kept, because opening a new one takes far longer than a schedule's other work. Whatever the step
    /// has left in the session is undone before the next one runs, as between any two deliveries; but for what it has
    /// prepared, which no proof gets past (prover::leaves_session).
    void die();

private:
    pqxx::transaction_base& tx() override { return inner_->unit().tx(); }
    std::string const& prepared(std::string_view text) override { return inner_->unit().prepared(text); }
    core::instant now() const override { return inner_->claimed_at() + ahead_; }

    void undo_sequences() noexcept;
    void report_left_behind();
    template <class Commit>
    void finish(Commit commit);

    service_database& database_;
    postgres::connection_options options_;
    fault_plan& fault_plan_;
    std::function<void()> committed_;
    std::function<void(std::string const&, std::string const&)> left_;
    std::string step_;  // of the current transaction
    std::unique_ptr<postgres::postgres_store> inner_;
    std::chrono::milliseconds ahead_{};
    bool in_transaction_{};
};

}  // namespace skald::testing::inner
