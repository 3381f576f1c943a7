// The store port over libpqxx.
#pragma once

#include "core/backoff.hpp"
#include "ports/store.hpp"
#include "postgres/connection.hpp"
#include "postgres/standby_wait.hpp"

#include <pqxx/except>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace skald::postgres {

/// When a lane may try to connect again. Lanes and requests try far more often than a server that is just starting, or
/// has just taken over, can handle: without this, every request of a busy service would open another connection.
///
/// Threads: one.
class reconnect_gate
{
public:
    using clock = std::chrono::steady_clock;

    bool is_open(clock::time_point now) const { return now >= opens_at_; }

    void record_success()
    {
        failures_ = 0;
        opens_at_ = {};
    }

    void record_failure(clock::time_point now) { opens_at_ = now + backoff_.wait(++failures_, random_); }

private:
    // Short even at its longest: callers that wait for the database have a backoff of their own on top.
    core::backoff backoff_{std::chrono::milliseconds{50}, std::chrono::milliseconds{1'000}};
    std::mt19937 random_{std::random_device{}()};
    int failures_{};
    clock::time_point opens_at_{};
};

class postgres_store final : public ports::store, private detail::unit_of_work
{
public:
    explicit postgres_store(connection_options options);
    ~postgres_store() override;

    void connect() override;
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const> items,
                                           ports::claim_options const& how = {}) override;
    ports::request_claim begin_request(ports::claim_item const& item,
                                       std::optional<std::chrono::milliseconds> wait) override;
    void savepoint() override;
    void undo_to_savepoint() override;
    detail::unit_of_work& unit() override;
    core::instant claimed_at() const override { return claimed_at_; }
    std::vector<std::int64_t> new_rows(std::size_t count) override;
    std::string read_body(core::body_reference const& what) override;
    void finish_step() override;
    void commit(ports::changes const& what) override;
    void write(ports::changes const& what) override;
    ports::transaction_state state() noexcept override;
    void rollback() noexcept override;
    std::string left_behind() override { return std::exchange(left_, {}); }
    ports::fault classify_current() override;

    /// From the next transaction on, as connection_options::inspects_every_session.
    void inspect_every_session(bool does) { options_.inspects_every_session = does; }

    /// From the next transaction on: what runs after BEGIN and before the claim. For a rehearsal, which commits
    /// nothing: no claim of it waits for the standbys.
    void set_opening(std::string text) { opening_ = std::move(text); }

    /// For the same layer or above: the connection, connected; with what users' code has left in the session.
    connection& open();

    /// Reads outside a transaction, in a session without what users' code has left there. It may have been idle for
    /// long: one from before a restart of the server breaks on first use. Then `what` runs once more, on a new one, so
    /// it must be safe to run twice. After no_answer it does not: who asks has waited long enough.
    template <class What>
    auto read(What what)
    try {
        return what(open_set_right());
    }
    catch (no_answer const&) {
        throw;
    }
    catch (pqxx::broken_connection const&) {
        return what(open_set_right());
    }

    /// Within read(). Unless the connection has a warning() then, the standbys have all that was committed before.
    void wait_for_standbys(connection& c) { standby_wait_.run(c); }

private:
    /// Which kind of transaction is open.
    enum class stage {
        none,
        one,   // of one delivery, or of one request
        many,  // of several deliveries
    };

    pqxx::transaction_base& tx() override { return *transaction_; }
    std::string const& prepared(std::string_view text) override { return connection_->prepared(text); }
    core::instant now() const override { return claimed_at_; }

    std::string set_right() const;
    connection& open_set_right();
    std::string begin_text(stage next, ports::claim_options const& how);
    pqxx::result begin_and_claim(std::string const& claim, stage next, ports::claim_options const& how);
    std::string as_ourselves() const;
    std::string check() const;
    void run_in_transaction(std::string const& text);
    void keep_bodies(ports::changes const& what);
    void keep_in_own_database(ports::changes const& what);
    std::string read_body_uncounted(core::body_reference const& what);
    std::string read_apart(core::body_reference const& what);
    std::string read_in_own_database(core::body_reference const& what);
    void run_commit(std::string const& text);
    void run_rollback();
    bool was_committed();
    std::string end_of_use();
    void record_leftovers(pqxx::result const& seen);
    void refuse_changed_node(bool is_read_only, bool is_replaced);
    std::vector<ports::claim_answer> claim(std::span<ports::claim_item const> items, ports::claim_options const& how);
    bool meets_another(std::span<ports::claim_answer const> answers, std::vector<bool>& waited) const;
    void wait_before_claim();
    ports::fault record_fault(ports::fault met);
    ports::fault with_reason(ports::fault const& met) const;
    void disconnect() noexcept;

    connection_options options_;
    std::string opening_;
    std::unique_ptr<connection> connection_;
    // What the step sees. It never sends BEGIN or COMMIT by itself, so a step that calls commit() on it commits
    // nothing.
    std::optional<pqxx::nontransaction> transaction_;
    std::string transaction_id_;  // empty while nothing was written
    core::instant claimed_at_{};
    std::chrono::steady_clock::time_point began_{};
    std::chrono::milliseconds silence_{};  // for which the session may stand still in this transaction
    stage stage_{stage::none};
    bool has_savepoint_{};
    bool has_lock_wait_{};  // of its own, which does not apply to what Skald writes at the end
    bool is_finished_{};    // nothing of the step's is left to run
    // What users' code may have left in the session (docs/adr/0025-a-session-is-set-right.md).
    bool is_lent_{};          // users' code had this transaction
    bool session_is_used_{};  // and the session, which has not been restored since
    bool is_inspected_{};     // after this transaction
    session_things first_;    // what a new session contains
    std::string role_;        // the session's own role
    std::string step_;        // of this transaction
    std::string left_;
    bool connection_is_suspect_{};
    bool has_standbys_{};                   // COMMIT waits for some
    standby_wait standby_wait_;             // for what a claim met
    std::vector<std::int64_t> spare_rows_;  // numbers for rows of the outbox, not used yet
    std::exception_ptr no_rows_;            // why there were none for this transaction
    reconnect_gate gate_;
};

}  // namespace skald::postgres
