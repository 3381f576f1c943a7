#include "testing/watched_store.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace skald::testing::inner {

watched_store::watched_store(service_database& database, fault_plan& at, std::function<void()> committed,
                             std::function<void(std::string const&, std::string const&)> left)
    : database_{database}, options_{database.options()}, fault_plan_{at}, committed_{std::move(committed)},
      left_{std::move(left)}, inner_{std::make_unique<postgres::postgres_store>(options_)}
{}

void watched_store::inspect_sessions(bool does)
{
    options_.inspects_every_session = does;
    inner_->inspect_every_session(does);
}

void watched_store::die()
{
    if (!in_transaction_) return;
    inner_->rollback();
    in_transaction_ = false;
    undo_sequences();
}

void watched_store::undo_to_savepoint()
{
    inner_->undo_to_savepoint();
    undo_sequences();
}

// All runs on one thread: between the beginning of a transaction and its end no other one moves them. So the next
// attempt of a step gets the numbers that the undone one got, and leaves the same rows.
void watched_store::undo_sequences() noexcept
try {
    database_.put_sequences_back();
}
catch (std::exception const&) {
    // The numbers then differ, which the proof tells.
}

std::vector<ports::claim_answer> watched_store::begin(std::span<ports::claim_item const> items,
                                                      ports::claim_options const& how)
{
    fault_plan_.reach(crash_point::before_claim);
    database_.remember_sequences();
    in_transaction_ = true;
    step_ = items.empty() ? std::string{} : items.front().step;
    auto answers = inner_->begin(items, how);
    if (std::ranges::any_of(answers, &ports::claim_answer::held)) {
        fault_plan_.reach(crash_point::after_claim);
        fault_plan_.claimed();
    }
    return answers;
}

ports::request_claim watched_store::begin_request(ports::claim_item const& item,
                                                  std::optional<std::chrono::milliseconds> wait)
{
    return inner_->begin_request(item, wait);
}

void watched_store::commit(ports::changes const& what)
{
    finish([&] { inner_->commit(what); });
}

void watched_store::write(ports::changes const& what)
{
    finish([&] { inner_->write(what); });
}

template <class Commit>
void watched_store::finish(Commit commit)
{
    ports::fault const in_doubt{ports::fault_kind::in_doubt, "the connection was lost while committing"};
    fault_plan_.reach(crash_point::before_commit);
    if (fault_plan_.loses(crash_point::commit_lost)) {
        die();
        throw in_doubt;
    }
    commit();
    in_transaction_ = false;
    report_left_behind();
    committed_();
    if (fault_plan_.loses(crash_point::answer_lost)) throw in_doubt;
    fault_plan_.reach(crash_point::after_commit);
}

void watched_store::rollback() noexcept
{
    // A dead service can't roll back: its connection goes, and the server rolls back.
    if (fault_plan_.is_dead()) return;
    inner_->rollback();
    if (std::exchange(in_transaction_, false)) undo_sequences();
    try {
        report_left_behind();
    }
    catch (std::bad_alloc const&) {
    }
}

void watched_store::report_left_behind()
{
    auto const what = inner_->left_behind();
    if (options_.inspects_every_session && !what.empty()) left_(step_, what);
}

ports::fault watched_store::classify_current()
{
    // The executor classifies whatever a step throws; a crash is not an error to classify.
    if (fault_plan_.is_dead()) throw crashed{};
    return inner_->classify_current();
}

}  // namespace skald::testing::inner
