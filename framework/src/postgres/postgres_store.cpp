#include "postgres/postgres_store.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "postgres/faults.hpp"
#include "postgres/last_words.hpp"
#include "postgres/leftovers.hpp"
#include "postgres/literal.hpp"
#include "postgres/transaction_text.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <utility>

namespace skald::postgres {
namespace {

std::string const begin_read_committed{"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"};

constexpr std::int64_t spare_rows_max = 256;

std::string set_lock_timeout(std::chrono::milliseconds timeout)
{
    return execute(queries::set_lock_timeout{.milliseconds = timeout});
}

}  // namespace

postgres_store::postgres_store(connection_options options) : options_{std::move(options)} {}

postgres_store::~postgres_store()
{
    rollback();
}

void postgres_store::connect()
try {
    if (connection_ && connection_->is_usable()) return;
    disconnect();
    if (!gate_.is_open(reconnect_gate::clock::now()))
        throw ports::fault{ports::fault_kind::connection_lost,
                           "the database was unavailable a moment ago; it is tried again soon"};
    connection_ = std::make_unique<connection>(options_);
    auto const seen = connection_->run(settings_text(options_, false) +
                                       execute(queries::inspect_session{.prepared_since = "infinity"}));
    first_ = read_session(seen[0]["text"].c_str());
    role_ = role_of(first_);
    standby_wait_.end_left_behind(*connection_);
    gate_.record_success();
}
catch (ports::fault const&) {
    throw;
}
// Also configuration_error: the schema was there at the start, and a restore may not have got to it yet.
catch (std::exception const& error) {
    gate_.record_failure(reconnect_gate::clock::now());
    throw ports::fault{ports::fault_kind::connection_lost, error.what()};
}

connection& postgres_store::open()
{
    connect();
    return *connection_;
}

std::vector<ports::claim_answer> postgres_store::begin(std::span<ports::claim_item const> items,
                                                       ports::claim_options const& how)
try {
    step_ = items.empty() ? std::string{} : items.front().step;
    auto answers = claim(items, how);
    // The wait ends the transaction, and with it all claims: the next may meet what this one did not. A duplicate alone
    // may have something to write, too.
    for (std::vector<bool> waited; meets_another(answers, waited);) {
        wait_before_claim();
        answers = claim(items, how);
    }
    transaction_.emplace(connection_->raw());
    return answers;
}
catch (pqxx::failure const&) {
    auto const met = record_fault(classify_current_of_ours());
    rollback();
    throw met;
}

std::vector<ports::claim_answer> postgres_store::claim(std::span<ports::claim_item const> items,
                                                       ports::claim_options const& how)
{
    auto const rows = begin_and_claim(items.empty() ? execute("claim_nothing") : claim_text(items, how.key_wait),
                                      items.size() > 1 ? stage::many : stage::one, how);
    // The last one knows the limits of all.
    if (!items.empty() && items.front().fence)
        silence_ = std::chrono::milliseconds{rows[rows.size() - 1]["silence_ms"].as<int>()};
    std::vector<ports::claim_answer> answers(items.size());
    if (!items.empty())
        for (auto const& row : rows) answers.at(row["ord"].as<std::size_t>() - 1) = read_claim(row);
    return answers;
}

ports::request_claim postgres_store::begin_request(ports::claim_item const& item,
                                                   std::optional<std::chrono::milliseconds> wait)
try {
    step_.clear();
    auto const rows = begin_and_claim(claim_request_text(item, wait), stage::one, {});
    auto met = read_request_claim(rows[0], item.saga);
    if (std::vector<bool> none; meets_another(std::array{met.claimed}, none)) wait_before_claim();
    transaction_.emplace(connection_->raw());
    return met;
}
catch (pqxx::failure const&) {
    auto const met = record_fault(classify_current_of_ours());
    rollback();
    throw met;
}

// What has to be sent before the claim. Sets the stage to what it will be then.
std::string postgres_store::begin_text(stage next, ports::claim_options const& how)
{
    connect();
    SKALD_ASSERT(stage_ == stage::none);
    SKALD_ASSERT(next != stage::none);
    began_ = std::chrono::steady_clock::now();
    transaction_id_.clear();
    has_savepoint_ = is_lent_ = is_finished_ = false;
    no_rows_ = nullptr;
    silence_ = options_.idle_in_transaction_timeout;
    has_lock_wait_ = how.lock_wait.has_value();
    stage_ = next;
    auto text = begin_read_committed;
    if (session_is_used_) text += set_right();
    text += execute("open_transaction");
    text += opening_;
    if (how.takes_turn) text += execute("take_turn");
    if (how.lock_wait) text += set_lock_timeout(*how.lock_wait);
    return text;
}

// `claim` is a query with the columns of every claim (sql/queries/guard.sql).
pqxx::result postgres_store::begin_and_claim(std::string const& claim, stage next, ports::claim_options const& how)
{
    auto const opening = begin_text(next, how);
    auto rows = connection_->run(opening + claim);
    auto const first = rows[0];
    if (!first["transaction"].is_null()) transaction_id_ = first["transaction"].c_str();
    claimed_at_ = core::parse_instant(first["at"].c_str()).value();
    refuse_changed_node(first["read_only"].c_str() == std::string_view{"on"},
                        first["service_table"].c_str() != connection_->service_table());
    has_standbys_ = first["standbys"].as<bool>();
    return rows;
}

// A step may work as another role, which may write nothing of Skald's.
std::string postgres_store::as_ourselves() const
{
    return is_lent_ ? "RESET ROLE;" : "";
}

// Runs in the same query before COMMIT: an aborted transaction, whose COMMIT would be a silent ROLLBACK, or one that
// the step ended, fails here (traps F1, G9).
std::string postgres_store::check() const
{
    auto text = as_ourselves();
    if (has_lock_wait_) text += set_lock_timeout(options_.lock_timeout);
    if (transaction_id_.empty()) return text;
    return text + execute(queries::assert_transaction{.transaction = transaction_id_});
}

// Many at a time: one round trip for some hundred messages. If that fails, so will commit(), which says why.
std::vector<std::int64_t> postgres_store::new_rows(std::size_t count)
try {
    transaction_.reset();
    while (spare_rows_.size() < count)
        for (auto const& row : connection_->run(as_ourselves() + execute(queries::new_rows{.count = spare_rows_max})))
            spare_rows_.push_back(row[0].as<std::int64_t>());
    std::vector<std::int64_t> const rows{spare_rows_.end() - static_cast<std::ptrdiff_t>(count), spare_rows_.end()};
    spare_rows_.resize(spare_rows_.size() - count);
    return rows;
}
catch (pqxx::failure const&) {
    no_rows_ = std::current_exception();
    return {};
}

void postgres_store::finish_step()
{
    SKALD_ASSERT(stage_ != stage::none);
    transaction_.reset();
    try {
        connection_->run(check() + "SET CONSTRAINTS ALL IMMEDIATE");
        is_finished_ = true;
    }
    catch (pqxx::failure const&) {
        auto const met = with_reason(record_fault(postgres::classify_current()));
        rollback();
        throw met;
    }
}

void postgres_store::commit(ports::changes const& what)
{
    SKALD_ASSERT(stage_ != stage::none);
    transaction_.reset();
    try {
        if (no_rows_) std::rethrow_exception(std::exchange(no_rows_, nullptr));
        SKALD_FAILPOINT("store.committing");
        keep_bodies(what);
        SKALD_FAILPOINT("store.commit_sent");
        run_commit(check() + changes_text(what) + "COMMIT");
        if (!is_lent_) session_is_used_ = false;
    }
    catch (pqxx::failure const&) {
        auto met = with_reason(
            record_fault(is_finished_ ? classify_current_at_commit_of_ours() : classify_current_at_commit()));
        // A step may leave a transaction in which we can write nothing: read-only, or as another role.
        if (is_lent_ && met.kind == ports::fault_kind::unavailable && met.connection_is_suspect)
            met.kind = ports::fault_kind::retry_at_once;
        rollback();
        throw met;
    }
}

void postgres_store::savepoint()
{
    SKALD_ASSERT(stage_ == stage::many);
    // The previous one is released: what it guarded stays, and PostgreSQL need not keep it apart.
    run_in_transaction(std::exchange(has_savepoint_, true) ? "RELEASE SAVEPOINT skald_member; SAVEPOINT skald_member"
                                                           : "SAVEPOINT skald_member");
}

void postgres_store::undo_to_savepoint()
{
    SKALD_ASSERT(stage_ == stage::many);
    SKALD_ASSERT(has_savepoint_);
    run_in_transaction("ROLLBACK TO SAVEPOINT skald_member");
}

// That a step has ended the transaction by itself is noticed here at the latest.
void postgres_store::run_in_transaction(std::string const& text)
try {
    transaction_.reset();
    if (!connection_ || !connection_->is_open() || connection_is_suspect_)
        throw ports::fault{ports::fault_kind::connection_lost, "the connection is lost, and the transaction with it"};
    connection_->run(text);
    transaction_.emplace(connection_->raw());
}
catch (pqxx::broken_connection const&) {
    throw record_fault(classify_current_of_ours());
}
catch (pqxx::failure const& error) {
    throw ports::fault{ports::fault_kind::transaction_ended, error.what()};
}

void postgres_store::run_commit(std::string const& text)
{
    std::string warning;
    try {
        auto const seen = connection_->run(text + end_of_use());
        warning = connection_->warning();
        record_leftovers(seen);
    }
    catch (pqxx::failure const&) {
        warning = connection_->warning();
        if (!was_committed()) throw;
        disconnect();  // what failed was to restore the session
    }
    stage_ = stage::none;
    if (!warning.empty())
        throw ports::fault{ports::fault_kind::in_doubt, "committed, but possibly not durably: " + warning};
}

detail::unit_of_work& postgres_store::unit()
{
    is_lent_ = session_is_used_ = true;
    return *this;
}

// Whether an error came after COMMIT: after ours, since a step may have run one of its own.
bool postgres_store::was_committed()
try {
    if (!is_lent_ || transaction_id_.empty() || !connection_->is_open()) return false;
    return connection_->run(execute("committed_here"))[0][0].as<std::string>("") == transaction_id_;
}
catch (pqxx::failure const&) {
    return false;  // it is aborted, and still open
}

// What default_transaction_read_only forbids, the claim's READ WRITE permits: an operator who has fenced off a node by
// it means existing connections too. After a restore, the next connection finds out which database it is now.
void postgres_store::refuse_changed_node(bool is_read_only, bool is_replaced)
{
    if (!is_read_only && !is_replaced) return;
    ++options_.server->node;
    disconnect();
    throw ports::fault{ports::fault_kind::connection_lost,
                       is_read_only ? "the database has become read-only; its connections are dropped"
                                    : "the schema skald was replaced in the database; its connections are dropped"};
}

// A record may be visible here and missing on the standby that takes over next, if its COMMIT's wait was cut short;
// whether it was, no other process can see, nor can any after a restart. So a record that was met is believed only
// after a commit that has waited for the standbys. Marks in `waited` those that one is needed for; whether there is any
// that was not in it.
bool postgres_store::meets_another(std::span<ports::claim_answer const> answers, std::vector<bool>& waited) const
{
    // A rehearsal commits nothing, and acts on nothing that it meets.
    if (!has_standbys_ || !opening_.empty()) return false;
    waited.resize(answers.size());
    bool is_another = false;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        using ports::claim_result;
        auto const& a = answers[i];
        if (a.held || waited[i] || (a.result != claim_result::duplicate && a.result != claim_result::cancelled))
            continue;
        waited[i] = is_another = true;
    }
    return is_another;
}

void postgres_store::wait_before_claim()
{
    run_rollback();
    stage_ = stage::none;
    wait_for_standbys(*connection_);
    if (!connection_->warning().empty())
        throw ports::fault{ports::fault_kind::in_doubt, "decided, but possibly not durably: " + connection_->warning()};
}

ports::transaction_state postgres_store::state() noexcept
try {
    using ports::transaction_state;
    transaction_.reset();
    // Unless the step ran a COMMIT of its own before: that is noticed when the step is claimed again.
    if (!connection_ || !connection_->is_open()) return transaction_state::lost;
    auto const now = connection_->transaction();
    return transaction_id_.empty() || now == transaction_id_ ? transaction_state::open : transaction_state::ended;
}
catch (...) {
    // An aborted transaction answers nothing, and is still there.
    return connection_ && connection_->is_open() ? ports::transaction_state::aborted : ports::transaction_state::lost;
}

void postgres_store::rollback() noexcept
try {
    transaction_.reset();
    if (stage_ == stage::none) return;
    stage_ = stage::none;
    if (!connection_ || !connection_->is_open() || connection_is_suspect_) return disconnect();
    run_rollback();
}
catch (...) {
    disconnect();
}

void postgres_store::disconnect() noexcept
{
    transaction_.reset();
    stage_ = stage::none;
    connection_is_suspect_ = false;
    is_lent_ = session_is_used_ = false;
    spare_rows_.clear();  // another server may number its rows the same
    connection_.reset();
}

ports::fault postgres_store::record_fault(ports::fault met)
{
    connection_is_suspect_ = connection_is_suspect_ || met.connection_is_suspect;
    return met;
}

ports::fault postgres_store::with_reason(ports::fault const& met) const
{
    if (!connection_ || connection_->is_open()) return met;
    ports::fault const said{met.kind, last_words(connection_->raw(), met.what()), met.connection_is_suspect};
    return lost_session(said, std::chrono::steady_clock::now() - began_, silence_);
}

ports::fault postgres_store::classify_current()
{
    auto met = with_reason(record_fault(postgres::classify_current()));
    if (connection_ && !connection_->is_open()) met.kind = ports::fault_kind::connection_lost;
    return met;
}

}  // namespace skald::postgres
