// Many deliveries in one transaction: claimed together, run one after the other, committed once. Where one of them does
// not end well nothing of the transaction remains, and they run in turn, each under a savepoint: then the bad one is
// undone alone, and the good ones commit. See docs/batches.md.
#include "runtime/step_delivery.hpp"

#include "core/failpoint.hpp"
#include "runtime/consequences.hpp"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// How long a batch waits for one of its keys that another transaction has. Alone a delivery may wait longer.
constexpr auto batch_wait = 100ms;

// PostgreSQL keeps the numbers of 64 subtransactions at hand; more make every other session's look at a row slower.
constexpr std::size_t savepoints_max = 64;

// One of the batch did not end well. Which one, and how, is found out when they run in turn.
struct spoilt
{};

}  // namespace

struct executor::batch
{
    struct member
    {
        std::size_t place{};  // among the deliveries
        step_delivery work;
    };

    std::vector<member> members;
    std::vector<std::string> notes;
    std::vector<std::size_t> places_of_notes;

    std::vector<member> take(std::size_t max);
};

// The first of them, and as many of each step as go into one transaction; the others stay for the next.
std::vector<executor::batch::member> executor::batch::take(std::size_t max)
{
    std::vector<member> taken, left;
    std::map<registered_step const*, std::size_t> counts;
    for (auto& one : members) {
        bool const fits = taken.size() < max && ++counts[one.work.hosted] <= one.work.hosted->batch_max;
        (fits ? taken : left).push_back(std::move(one));
    }
    members = std::move(left);
    return taken;
}

std::vector<bool> executor::settle_batch(std::span<ports::delivery const> deliveries)
{
    std::vector<bool> settled(deliveries.size());
    batch calm, troubled;
    for (std::size_t place = 0; place < deliveries.size(); ++place) {
        if (auto note = read_progress(deliveries[place])) {
            calm.notes.push_back(*std::move(note));
            calm.places_of_notes.push_back(place);
        }
        else if (auto work = read_step(deliveries[place]); work && work->hosted->batch_max > 1) {
            auto& group = often_spoils(*work->hosted) ? troubled : calm;
            group.members.push_back({place, *std::move(work)});
        }
    }
    while (!calm.members.empty() || !calm.notes.empty()) settle_together(calm, settled);
    while (!troubled.members.empty()) settle_in_turn(troubled, settled);
    return settled;
}

void executor::settle_together(batch& all, std::vector<bool>& settled)
{
    batch now{all.take(savepoints_max), std::exchange(all.notes, {}), std::exchange(all.places_of_notes, {})};
    try {
        for (auto const place : try_together(now)) settled[place] = true;
        return;
    }
    catch (spoilt const&) {
        SKALD_MUTANT("spoilt_batch_kept", store_.commit({}));
        store_.rollback();
        SKALD_FAILPOINT("batch.spoilt");
    }
    catch (...) {
        store_.rollback();
        leaving_.clear();
        throw;
    }
    // The notes are left to be taken in alone: it may be one of them that can't be.
    if (!now.members.empty()) settle_in_turn(now, settled);
}

// The places of those that are settled. What needs more than a step to be run is left to be settled alone.
std::vector<std::size_t> executor::try_together(batch& now)
try {
    ports::changes changes;
    if (!now.notes.empty()) changes.progress.push_back(join_arrays(now.notes));
    auto done = now.places_of_notes;
    if (now.members.empty()) {
        store_.write(changes);
        SKALD_FAILPOINT("progress.noted");
        return done;
    }

    std::vector<ports::claim_item> items;
    for (auto const& one : now.members) items.push_back(one.work.item());
    auto const claimed = store_.begin(items, batch_wait);
    SKALD_FAILPOINT("batch.claimed");
    std::vector<step_delivery const*> to_run;
    for (std::size_t n = 0; n < items.size(); ++n)
        if (is_settled_together(now.members[n].work, claimed[n], to_run)) done.push_back(now.members[n].place);

    auto const rejected = run_together(to_run, changes);
    SKALD_FAILPOINT("batch.ran");
    if (to_run.empty() && changes.progress.empty()) store_.rollback();
    else commit(changes);
    SKALD_FAILPOINT_IF(!leaving_.empty(), "step.committed");
    hand_over();
    SKALD_FAILPOINT("batch.committed");
    for (auto const* work : to_run) learn(*work->hosted, false);
    for (auto const& [work, reason] : rejected) tell_no(*work, core::event::rejected, reason);
    if (!to_run.empty()) log_.debug("batch.completed", {{"deliveries", items.size()}, {"ran", to_run.size()}});
    return done;
}
catch (ports::fault const& met) {
    // What can't be told, or is away, is for the lane. All else one of them meets again, in turn.
    if (met.kind == ports::fault_kind::in_doubt || met.kind == ports::fault_kind::connection_lost) throw;
    throw spoilt{};
}

bool executor::is_settled_together(step_delivery const& work, ports::claim_answer const& claimed,
                                   std::vector<step_delivery const*>& to_run)
{
    switch (claimed.verdict) {
    case ports::verdict::fresh: to_run.push_back(&work); return true;
    case ports::verdict::duplicate:
        SKALD_FAILPOINT("step.duplicate");
        log_.debug("step.duplicate", {{"key", work.key().text()}, {"scope", work.envelope.saga.scope}});
        return true;
    case ports::verdict::cancelled:
        // A record of its own says `completed` in this transaction, which must not be committed so.
        if (claimed.held) throw spoilt{};
        return true;
    case ports::verdict::in_flight:
        // One key that somebody has is enough for the store to claim none of them.
        throw spoilt{};
    case ports::verdict::retry:
    case ports::verdict::paused:
    case ports::verdict::mismatch: return false;
    }
    return false;
}

std::vector<executor::member_no> executor::run_together(std::vector<step_delivery const*> const& to_run,
                                                        ports::changes& changes)
try {
    std::vector<member_no> rejected;
    std::map<registered_step const*, std::vector<step_delivery const*>> at_once;
    for (auto const* work : to_run) {
        bool const is_forward = work->envelope.itinerary.position.direction == core::direction::forward;
        if (is_forward && work->hosted->step->does_batches()) at_once[work->hosted].push_back(work);
        else run_in_batch(std::array{work}, changes, rejected);
    }
    for (auto const& [hosted, works] : at_once) run_in_batch(works, changes, rejected);
    merge_reports(changes);
    return rejected;
}
catch (ports::fault const&) {
    throw;
}
catch (...) {
    throw spoilt{};
}

// Deliveries of one step: by its execute_batch() where they are several, else by execute() or compensate().
void executor::run_in_batch(std::span<step_delivery const* const> works, ports::changes& changes,
                            std::vector<member_no>& rejected)
{
    std::vector<std::unique_ptr<detail::step_run>> runs;
    std::deque<step_context> contexts;  // which have addresses, as these have
    std::deque<std::optional<reject_outcome>> noes(works.size());
    std::vector<detail::member_run> members;
    for (auto const* work : works) {
        auto const& saga = work->envelope.saga;
        runs.push_back(work->hosted->step->read(work->delivery->message.body));
        contexts.emplace_back(store_.unit(), saga.scope, saga.key, work->key().text(), 1);
        members.push_back({contexts.back(), *runs.back(), noes[members.size()]});
    }
    if (works.size() > 1) {
        if (works.front()->hosted->step->execute_batch(members) != batch_outcome::all_done) throw spoilt{};
    }
    else if (works.front()->envelope.itinerary.position.direction == core::direction::back) {
        runs.front()->compensate(contexts.front());
    }
    else if (!runs.front()->execute(contexts.front()).is_done()) {
        throw spoilt{};
    }
    ports::claim_answer const fresh{ports::verdict::fresh, 1, true, {}, {}};
    for (std::size_t n = 0; n < works.size(); ++n) {
        auto const& e = works[n]->envelope;
        if (noes[n]) {
            add_transition(changes, *works[n], fresh, core::event::rejected, noes[n]->reason,
                           works[n]->delivery->message.body);
            rejected.push_back({works[n], noes[n]->reason});
            continue;
        }
        add_published(changes, e.saga, e.definition, contexts[n].key(), contexts[n].published());
        add_transition(changes, *works[n], fresh, core::event::completed, "", runs[n]->data());
    }
}

// Each under a savepoint of one transaction, as if it were alone.
void executor::settle_in_turn(batch& all, std::vector<bool>& settled)
{
    auto members = all.take(savepoints_max);
    std::vector<std::size_t> done;
    store_.begin_batch();
    try {
        for (auto& one : members) {
            if (try_in_turn(one.work)) done.push_back(one.place);
            if (!store_.batch_is_open()) break;
        }
        SKALD_MUTANT("handed_over_in_turn", hand_over());
        SKALD_FAILPOINT("batch.ran_in_turn");
        store_.commit_batch();
    }
    catch (ports::fault const& met) {
        abandon_batch();
        if (met.kind == ports::fault_kind::in_doubt || met.kind == ports::fault_kind::connection_lost) throw;
        return;  // all of them are left to be settled alone
    }
    catch (...) {
        abandon_batch();
        throw;
    }
    SKALD_FAILPOINT("batch.committed_in_turn");
    hand_over();
    for (auto const place : done) settled[place] = true;
}

bool executor::try_in_turn(step_delivery& work)
try {
    settle_step(work, batch_wait);
    return true;
}
catch (ports::fault const& met) {
    store_.rollback();
    if (met.kind == ports::fault_kind::connection_lost) throw;
    return false;
}
catch (std::exception const& error) {
    store_.rollback();
    log_.warning("delivery.not_settled", {{"id", work.delivery->message.id}, {"error", error.what()}});
    return false;
}

// Whoever settles the next delivery must not find itself in a transaction that nobody will commit.
void executor::abandon_batch() noexcept
{
    leaving_.clear();
    store_.rollback_batch();
}

// At one delivery in 64 that spoils its batch, half of the batches of 32 run twice: not worth the try.
bool executor::often_spoils(registered_step const& step) const
{
    auto const it = spoils_.find(&step);
    return it != spoils_.end() && it->second > 1.0 / 64;
}

void executor::learn(registered_step const& step, bool spoils)
{
    auto& share = spoils_[&step];
    share += ((spoils ? 1.0 : 0.0) - share) / 64;
}

}  // namespace skald::runtime
