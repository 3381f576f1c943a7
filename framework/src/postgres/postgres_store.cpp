#include "postgres/postgres_store.hpp"

#include "core/failpoint.hpp"
#include "postgres/changes_text.hpp"
#include "postgres/claim_text.hpp"
#include "postgres/faults.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <utility>

namespace skald::postgres {
namespace {

std::string const begin_text{"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"};

constexpr std::int64_t spare_rows_max = 256;

ports::fault batch_is_gone()
{
    return {ports::fault_kind::retry_at_once, "the batch's transaction is gone"};
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
        throw ports::fault{ports::fault_kind::connection_lost, "the database was away a moment ago; tried again soon"};
    connection_ = std::make_unique<connection>(options_);
    // What a step runs after a COMMIT or ROLLBACK of its own is in no transaction of ours, and must write nothing.
    connection_->run("SET default_transaction_read_only = on");
    gate_.note_success();
}
catch (pqxx::failure const& error) {
    gate_.note_failure(reconnect_gate::clock::now());
    throw ports::fault{ports::fault_kind::connection_lost, error.what()};
}

connection& postgres_store::open()
{
    connect();
    return *connection_;
}

std::vector<ports::claim_answer> postgres_store::begin(std::span<ports::claim_item const> items,
                                                       std::optional<std::chrono::milliseconds> wait)
try {
    auto const rows = begin_and_claim(items.empty() ? execute("claim_nothing", {}) : claim_text(items, wait),
                                      items.size() > 1 ? stage::many : stage::one);
    std::vector<ports::claim_answer> answers(items.size());
    if (!items.empty())
        for (auto const& row : rows) answers.at(row[0].as<std::size_t>() - 1) = read_claim(row);
    // To settle doubts ends the transaction, and with it what was claimed for the others of a batch.
    if (settle_doubts(answers) && items.size() > 1) return begin(items, wait);
    transaction_.emplace(connection_->raw());
    return answers;
}
catch (pqxx::failure const&) {
    auto const met = noted(classify_current_of_ours());
    rollback();
    throw met;
}

ports::request_claim postgres_store::begin_request(ports::claim_item const& item,
                                                   std::optional<std::chrono::milliseconds> wait)
try {
    auto const rows = begin_and_claim(claim_request_text(item, wait), stage::one);
    ports::request_claim met{read_claim(rows[0]), read_stored_response(rows[0], item.saga)};
    settle_doubts(std::array{met.claimed});
    transaction_.emplace(connection_->raw());
    return met;
}
catch (pqxx::failure const&) {
    auto const met = noted(classify_current_of_ours());
    rollback();
    throw met;
}

// What has to be sent first: BEGIN, for the stage `alone`; within a batch a savepoint, and BEGIN before the first. The
// stage is what it will be then.
std::string postgres_store::enter(stage alone)
{
    connect();
    if (stage_ == stage::batch_lost) throw batch_is_gone();
    bool const in_batch = is_in_batch();
    std::string text;
    if (stage_ == stage::none || stage_ == stage::batch_ahead) {
        transaction_id_.clear();
        text = begin_text;
        if (in_batch || alone == stage::many) text += "SET LOCAL skald.batch_is_open = 'on';";
        SKALD_MUTANT("open_batch_committed", text = begin_text);
        stage_ = alone;
    }
    if (in_batch) {
        text += "SAVEPOINT delivery;";
        stage_ = stage::batch_delivery;
    }
    return text;
}

// `claim` is a query whose first columns are those of every claim (sql/queries/guard.sql).
pqxx::result postgres_store::begin_and_claim(std::string const& claim, stage alone)
{
    auto const opening = enter(alone);
    auto rows = connection_->run(opening + claim);
    if (transaction_id_.empty() && !rows[0][6].is_null()) transaction_id_ = rows[0][6].c_str();
    claimed_at_ = core::parse_instant(rows[0][7].c_str()).value();
    refuse_read_only_node(rows[0][8].c_str() == std::string_view{"on"});
    return rows;
}

// Runs in the same query before COMMIT: an aborted transaction, whose COMMIT would be a silent ROLLBACK, or one that
// the step ended, fails here (traps F1, G9).
std::string postgres_store::check(std::string_view query) const
{
    return transaction_id_.empty() ? std::string{} : execute(query, {literal(transaction_id_)});
}

// Many at a time: a round trip for some hundred messages. Where that fails, so will commit(), which says why.
std::vector<std::int64_t> postgres_store::new_rows(std::size_t count)
try {
    transaction_.reset();
    while (spare_rows_.size() < count)
        for (auto const& row : connection_->run(execute("new_rows", {literal(spare_rows_max)})))
            spare_rows_.push_back(row[0].as<std::int64_t>());
    std::vector<std::int64_t> const rows{spare_rows_.end() - static_cast<std::ptrdiff_t>(count), spare_rows_.end()};
    spare_rows_.resize(spare_rows_.size() - count);
    return rows;
}
catch (pqxx::failure const&) {
    return {};
}

void postgres_store::commit(ports::changes const& what)
{
    transaction_.reset();
    if (stage_ == stage::batch_delivery) return run_to_the_end(check("assert_transaction") + changes_text(what));
    try {
        auto checked = check(stage_ == stage::many ? "assert_batch" : "assert_transaction");
        SKALD_MUTANT("no_transaction_check", checked.clear());
        SKALD_MUTANT("partial_commit", checked.clear(), connection_->run("COMMIT; BEGIN"));
        SKALD_FAILPOINT("store.committing");
        SKALD_FAILPOINT("store.commit_sent");
        run_commit(checked + changes_text(what) + "COMMIT");
    }
    catch (pqxx::failure const&) {
        auto const met = noted(classify_current_at_commit());
        rollback();
        throw met;
    }
}

// The end of one delivery within a batch: its savepoint goes, and what it did stays in the transaction.
void postgres_store::run_to_the_end(std::string const& text)
try {
    connection_->run(text + "RELEASE SAVEPOINT delivery");
    stage_ = stage::batch_between;
}
catch (pqxx::failure const&) {
    auto const met = noted(classify_current_of_ours());
    rollback();
    throw met;
}

void postgres_store::begin_batch()
{
    rollback_batch();
    stage_ = stage::batch_ahead;
}

void postgres_store::commit_batch()
{
    if (stage_ == stage::batch_lost) {
        rollback_batch();
        throw batch_is_gone();
    }
    if (stage_ == stage::batch_ahead) {
        stage_ = stage::none;
        return;
    }
    stage_ = stage::many;
    commit({});
}

void postgres_store::rollback_batch() noexcept
{
    if (is_in_batch()) stage_ = stage_ == stage::batch_ahead ? stage::none : stage::many;
    rollback();
}

// Where that fails the transaction is of no use, and everything that the batch did before is lost with it.
void postgres_store::roll_back_to_savepoint() noexcept
try {
    stage_ = stage::batch_lost;
    if (!connection_ || !connection_->is_open() || connection_is_suspect_) return disconnect();
    connection_->run("ROLLBACK TO SAVEPOINT delivery; RELEASE SAVEPOINT delivery");
    stage_ = stage::batch_between;
}
catch (...) {
}

void postgres_store::run_commit(std::string const& text)
{
    auto& doubts = options_.server->doubts;
    auto const before = doubts.load();
    try {
        connection_->run(text);
    }
    catch (pqxx::failure const&) {
        if (classify_current_at_commit().kind == ports::fault_kind::in_doubt) ++doubts;
        throw;
    }
    stage_ = stage::none;
    if (connection_->warning().empty()) {
        doubts_settled_ = before;  // it has waited for the standbys, and what came before it in the log has too
        return;
    }
    ++doubts;
    throw ports::fault{ports::fault_kind::in_doubt, "committed, though maybe not for good: " + connection_->warning()};
}

// What the server's default_transaction_read_only forbids, the claim's READ WRITE permits: an operator who has fenced a
// node off by that setting means the connections too that were there before. Every other one of this process is dropped
// as well.
void postgres_store::refuse_read_only_node(bool is_read_only)
{
    if (!is_read_only) return;
    ++options_.server->node;
    disconnect();
    throw ports::fault{ports::fault_kind::connection_lost,
                       "the database has become read-only; its connections are dropped"};
}

// A record may be visible here and be missing on the standby that takes over next. Once a commit in this process was in
// doubt, a record that was met is believed only after a commit that has waited for the standbys.
bool postgres_store::settle_doubts(std::span<ports::claim_answer const> answers)
{
    auto const doubts = options_.server->doubts.load();
    if (doubts == doubts_settled_) return false;
    bool const met_one = std::ranges::any_of(answers, [](auto const& a) {
        return !a.held && (a.verdict == ports::verdict::duplicate || a.verdict == ports::verdict::cancelled);
    });
    if (!met_one) return false;
    if (stage_ == stage::batch_delivery)
        throw ports::fault{ports::fault_kind::retry_at_once, "a record has to be settled outside of the batch"};
    connection_->run("ROLLBACK");
    stage_ = stage::none;
    connection_->run("BEGIN READ WRITE;" + execute("wait_for_standbys", {}) + "COMMIT");
    if (!connection_->warning().empty())
        throw ports::fault{ports::fault_kind::in_doubt,
                           "decided, though maybe not for good: " + connection_->warning()};
    doubts_settled_ = doubts;
    return true;
}

void postgres_store::write(ports::changes const& what)
{
    auto const text = enter(stage::one) + changes_text(what);
    if (stage_ == stage::batch_delivery) return run_to_the_end(text);
    try {
        SKALD_FAILPOINT("store.committing");
        SKALD_FAILPOINT("store.commit_sent");
        run_commit(text + "COMMIT");
    }
    catch (pqxx::failure const&) {
        auto met = noted(classify_current_at_commit());
        if (met.kind == ports::fault_kind::broken) met = classify_current_of_ours();
        rollback();
        throw met;
    }
}

bool postgres_store::is_still_claimed() noexcept
try {
    transaction_.reset();
    // A connection that is gone took the transaction with it, unless a COMMIT of the step's own came before: that
    // shows when the step is claimed again.
    if (!connection_ || !connection_->is_open() || transaction_id_.empty()) return true;
    return connection_->transaction() == transaction_id_;
}
catch (...) {
    // An aborted transaction answers nothing, and it is still there.
    return true;
}

void postgres_store::rollback() noexcept
try {
    transaction_.reset();
    if (stage_ == stage::batch_delivery) return roll_back_to_savepoint();
    if (stage_ != stage::one && stage_ != stage::many) return;
    stage_ = stage::none;
    if (!connection_ || !connection_->is_open() || connection_is_suspect_) return disconnect();
    // A warning and no error where the server has ended the transaction already.
    connection_->run("ROLLBACK");
}
catch (...) {
    disconnect();
}

void postgres_store::disconnect() noexcept
{
    transaction_.reset();
    if (stage_ != stage::batch_ahead) stage_ = is_in_batch() ? stage::batch_lost : stage::none;
    connection_is_suspect_ = false;
    spare_rows_.clear();  // another server may come to number its rows the same
    connection_.reset();
}

ports::fault postgres_store::noted(ports::fault met)
{
    connection_is_suspect_ = connection_is_suspect_ || met.connection_is_suspect;
    return met;
}

ports::fault postgres_store::classify_current()
{
    auto met = noted(postgres::classify_current());
    if (connection_ && !connection_->is_open()) met.kind = ports::fault_kind::connection_lost;
    return met;
}

}  // namespace skald::postgres
