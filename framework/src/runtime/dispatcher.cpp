#include "runtime/dispatcher.hpp"

#include "core/assert.hpp"
#include "runtime/upcasting.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// How many are read at a time, so that the first of them need not wait for the last to be parsed.
constexpr std::size_t read_max = 64;

// After contention, several run again without a wait; one that ran alone waits a moment, and so does everything while
// the database is unavailable.
constexpr core::backoff contended_wait{5ms, 250ms};
constexpr core::backoff other_wait{20ms, 5s};

// This many later arrivals may go before a delivery that came back: more than a process has unacked.
constexpr std::uint64_t arrivals_before_suspects = 1'000;

// For this long after a lock timeout a step counts as blocked.
constexpr auto blocked_for = 60s;

// Between two tries of deliveries that meet a lock: at the least, since a statement with NOWAIT does not wait at all.
constexpr auto locked_out_pause = 100ms;

constexpr auto log_every = 5s;
constexpr std::string_view locked_out{"another session holds a lock for longer than SKALD_LOCK_TIMEOUT_MS"};
constexpr std::string_view still_fighting{
    "it conflicted with another transaction, and the limit is already at its minimum"};

bool has_repeatedly_come_back(task const& t)
{
    return t.delivery.returns > 1;
}

void count(task const& arrived)
{
    auto const* const m = arrived.step();
    if (m == nullptr || m->hosted == nullptr) return;
    auto& counts = m->hosted->counts->of(m->is_forward());
    counts.deliveries.add();
    if (arrived.delivery.returns > 0) counts.redelivered.add();
}

// The value by which the step is serialized. Data that can't be read, or upcast, has none: the run finds that out.
void read_serial(task& t)
try {
    auto const& hosted = *t.step()->hosted;
    if (!hosted.options.serial_by || t.kept) return;  // what is kept elsewhere is not read before it runs
    t.read = read_for_run(*t.step(), t.data());
    t.serial = '=' + hosted.options.serial_by.value_of(t.read->object());
}
catch (std::exception const&) {
}

}  // namespace

dispatcher::dispatcher(dispatcher_options options, std::string service, registry const& steps,
                       ports::subscription& deliveries, core::logger& log, std::mt19937_64 random)
    : options_{options}, service_{std::move(service)}, steps_{steps}, deliveries_{deliveries}, log_{log}, random_{
                                                                                                              random}
{
    SKALD_ASSERT(options_.lanes > 0 && options_.batch_max > 0);
}

dispatcher::group dispatcher::take(std::chrono::milliseconds wait)
{
    auto const until = clock::now() + wait;
    std::unique_lock lock{mutex_};
    for (;;) {
        auto const now = clock::now();
        put_back_due(now);
        look_after_slow(now);
        if (!is_reading_) {
            lock.unlock();
            auto arrived = read(deliveries_.take(read_max, 0ms));
            lock.lock();
            sort(std::move(arrived));
        }
        if (auto found = pick(); !found.tasks.empty()) {
            if (next_queue() != nullptr || !is_reading_) changed_.notify_one();
            return found;
        }
        if (now >= until) return {};
        auto const longest = until_next(std::chrono::ceil<std::chrono::milliseconds>(until - now));
        if (is_reading_) {
            changed_.wait_for(lock, longest);
            if (clock::now() >= until) return {};
            continue;
        }
        is_reading_ = true;
        lock.unlock();
        auto arrived = read(deliveries_.take(read_max, longest));
        bool const is_idle = arrived.empty();
        lock.lock();
        is_reading_ = false;
        sort(std::move(arrived));
        // Nothing came: either nothing more will, or the wait ended early because a task of `later_` is due.
        if (is_idle && next_queue() == nullptr && later_.empty()) {
            changed_.notify_all();
            return {};
        }
    }
}

std::vector<task> dispatcher::read(std::vector<ports::delivery>&& arrived)
{
    std::vector<task> tasks;
    tasks.reserve(arrived.size());
    for (auto& one : arrived) {
        if (!options_.must_be_signed && one.handler.empty()) log_distrust(one.message);
        auto& t = tasks.emplace_back(
            route(std::move(one), service_, steps_, options_.must_be_signed ? options_.keys : nullptr));
        count(t);
        if (options_.recording != nullptr) options_.recording->note(t);
        if (auto const* const m = t.step(); m != nullptr && !t.refused) read_serial(t);
    }
    return tasks;
}

// Logs a message that would be parked if signatures were required. While a service is moving to signatures that may be
// every message, so they are counted.
void dispatcher::log_distrust(core::message const& m)
{
    if (options_.keys == nullptr) return;
    auto const found = options_.keys->check(m);
    if (!found) return;
    std::lock_guard const lock{mutex_};
    ++distrusted_;
    auto const now = clock::now();
    if (now < log_distrust_from_) return;
    log_distrust_from_ = now + log_every;
    log_.warning("delivery.not_trusted", {{"key", m.id},
                                          {"type", m.type},
                                          {"reason", found->reason},
                                          {"error", found->why},
                                          {"deliveries", std::uint64_t{std::exchange(distrusted_, 0)}}});
}

void dispatcher::sort(std::vector<task>&& arrived)
{
    for (auto& one : arrived) {
        if (one.delivery.tag.generation > generation_) drop_stale(one.delivery.tag.generation);
        one.number = ++arrived_;
        one.suspicion = suspicion_of(one);
        put(std::move(one), false);
    }
}

// How often it came back; but of every second one as if that were once. For new ones that kill may go on coming: they
// have come back less often, and what waits longest would never be run.
int dispatcher::suspicion_of(task const& t)
{
    return t.delivery.returns > 1 && std::bernoulli_distribution{}(random_) ? 1 : t.delivery.returns;
}

// What came on a lost connection can't be acked, and is delivered again on the new one.
void dispatcher::drop_stale(std::uint64_t generation)
{
    generation_ = generation;
    auto const is_stale = [&](task const& t) { return t.delivery.tag.generation < generation; };
    for (auto& [key, q] : queues_) std::erase_if(q.waiting, is_stale);
    std::erase_if(later_, [&](auto const& one) { return is_stale(one.second); });
}

void dispatcher::put(task&& t, bool at_front)
{
    auto& q = queue_of(t);
    t.alone = t.alone || is_slow(t);
    auto place = at_front ? q.waiting.begin() : q.waiting.end();
    if (q.came_back) {
        auto const first = std::ranges::lower_bound(q.waiting, t.suspicion, {}, &task::suspicion);
        auto const last = std::ranges::upper_bound(q.waiting, t.suspicion, {}, &task::suspicion);
        std::uniform_int_distribution<std::ptrdiff_t> anywhere{0, last - first};
        place = at_front ? first : first + anywhere(random_);
    }
    q.waiting.insert(place, std::move(t));
}

dispatcher::queue& dispatcher::queue_of(task const& t)
{
    if (auto const* const m = t.step(); m != nullptr && m->hosted != nullptr && !t.refused) {
        bool const came_back = t.delivery.returns > 0;
        auto& q = queues_[{m->hosted, m->is_forward(), came_back, {}}];
        q.of = &step_of(t);
        q.came_back = came_back;
        return q;
    }
    auto const* const report = std::get_if<report_message>(&t.purpose);
    auto& q = queues_[{nullptr, false, false, report != nullptr ? t.delivery.message.type : std::string{}}];
    // Progress reports are taken in together; everything else is rare.
    if (report != nullptr && report->list == &ports::changes::progress) q.batch_max = options_.batch_max;
    return q;
}

// A name shared by several definitions is one step here, with the lowest of their limits.
dispatcher::step& dispatcher::step_of(task const& t)
{
    auto const& name = t.step()->envelope.itinerary.current().name;
    if (auto const found = limits_.find(name); found != limits_.end()) return found->second;
    auto const least = steps_.bounds_of(name);
    limit_bounds const bounds{std::min(least.lanes, options_.lanes), std::min(least.batch, options_.batch_max),
                              options_.batch_first};
    return limits_.try_emplace(name, name, bounds, steps_.limit_of(name)).first->second;
}

// What may have ended its session itself waits behind the others: hundreds of them would keep all else from running.
void dispatcher::put_back_due(clock::time_point now)
{
    auto const due = later_.upper_bound(now);
    for (auto it = later_.begin(); it != due; ++it) {
        bool const at_front = it->second.lost == 0;
        put(std::move(it->second), at_front);
    }
    later_.erase(later_.begin(), due);
}

std::chrono::milliseconds dispatcher::until_next(std::chrono::milliseconds wait) const
{
    auto const now = clock::now();
    auto next = now + wait;
    if (!later_.empty()) next = std::min(next, later_.begin()->first);
    for (auto const& [name, of] : limits_)
        if (of.locked_out_from > now) next = std::min(next, of.locked_out_from);
    return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(next - now), 0ms, wait);
}

bool dispatcher::may_run(queue const& q, task const& t) const
{
    if (q.came_back && has_repeatedly_come_back(t) && repeated_running_ > 0) return false;
    if (slow_running_ >= slow_max() && is_slow(t)) return false;
    if (t.locked_out && (q.of->locked_out_runs || clock::now() < q.of->locked_out_from)) return false;
    return q.of == nullptr || t.serial.empty() || !q.of->serial.contains(t.serial);
}

bool dispatcher::any_may_run(queue const& q) const
{
    return std::ranges::any_of(q.waiting, [&](auto const& t) { return may_run(q, t); });
}

// Of the queues from which a lane may take something, the one whose first task has waited longest.
dispatcher::queue* dispatcher::next_queue()
{
    queue* next = nullptr;
    auto const due = [](queue const& q) {
        auto const& first = q.waiting.front();
        return first.number + (q.came_back ? arrivals_before_suspects : 0);
    };
    for (auto& [key, q] : queues_) {
        if (q.waiting.empty() || (q.of != nullptr && q.of->running >= q.of->limit.lanes())) continue;
        if (!any_may_run(q)) continue;
        if (next == nullptr || due(q) < due(*next)) next = &q;
    }
    return next;
}

dispatcher::group dispatcher::pick()
{
    group picked;
    auto* const q = next_queue();
    if (q == nullptr) return picked;
    auto const max = q->of != nullptr ? q->of->limit.batch() : q->batch_max;
    for (auto it = q->waiting.begin(); it != q->waiting.end() && picked.tasks.size() < max;) {
        bool const fits = picked.tasks.empty() || !it->alone;
        if (!fits || !may_run(*q, *it)) {
            ++it;
            continue;
        }
        picked.tasks.push_back(std::move(*it));
        it = q->waiting.erase(it);
        if (picked.tasks.back().alone) break;
    }
    SKALD_ASSERT(!picked.tasks.empty());
    if (q->of == nullptr) return picked;
    // In the same order in all processes, so that no two wait for each other.
    std::ranges::stable_sort(picked.tasks, {}, &task::serial);
    for (auto const& t : picked.tasks)
        if (!t.serial.empty()) q->of->serial.insert(t.serial);
    picked.running = &running_.begin(q->of->name, picked.tasks);
    picked.how.running = &picked.running->running;
    picked.how.takes_turn = q->of->limit.takes_turns();
    picked.of = q->of;
    picked.is_locked_out = picked.tasks.front().locked_out;
    picked.how.waits_briefly = clock::now() < q->of->blocked_until;
    picked.is_slow = is_slow(picked.tasks.front());
    if (picked.is_slow) ++slow_running_;
    if (picked.is_locked_out) q->of->locked_out_runs = true;
    if (q->came_back && has_repeatedly_come_back(picked.tasks.front())) ++repeated_running_;
    ++q->of->running;
    return picked;
}

std::vector<ports::contention> dispatcher::finish(group&& ran, run_result const& result)
{
    std::vector<ports::contention> changed;
    auto const now = clock::now();
    auto const members = ran.tasks.size();
    std::lock_guard const lock{mutex_};
    if (auto* const of = ran.of; of != nullptr) {
        SKALD_ASSERT(of->running > 0);
        --of->running;
        if (auto const kept = running_.end(*ran.running)) {
            std::swap(ran.tasks.front(), ran.tasks[*kept]);
            ran.tasks.erase(ran.tasks.begin() + 1, ran.tasks.end());  // the others have gone back to the queue
        }
        if (ran.is_slow) {
            SKALD_ASSERT(slow_running_ > 0);
            --slow_running_;
        }
        if (has_repeatedly_come_back(ran.tasks.front())) {
            SKALD_ASSERT(repeated_running_ > 0);
            --repeated_running_;
        }
        for (auto const& t : ran.tasks)
            if (!t.serial.empty()) of->serial.erase(of->serial.find(t.serial));
        end_locked_out(ran, result, now);
        auto const change = change_limit(*of, result, members, now);
        of->show();
        if (change) {
            of->shown.changes[change->reason].add();
            log_change(*of, change->why);
        }
        // Contention that goes on without a change of the limit is reported from time to time.
        bool const is_news = of->limit.conflicts() > of->conflicts_reported && now - of->reported_at > log_every;
        if (change && !change->is_growth) changed.push_back(report(*of, change->why, now));
        else if (is_news) changed.push_back(report(*of, still_fighting, now));
        if (of->blocked_until == now + blocked_for && now - of->blocked_reported_at > log_every) {
            of->blocked_reported_at = now;
            changed.push_back(report(*of, locked_out, now));
        }
    }
    if (!result.processed()) {
        std::ranges::reverse(ran.tasks);  // each goes to the front
        for (auto& one : ran.tasks) defer(std::move(one), *result.not_processed, now, members == 1);
    }
    ran.tasks.clear();
    if (next_queue() != nullptr) changed_.notify_one();
    return changed;
}

// Records which delivery has met a lock that is not released. Of several it is the one whose statement waited, if the
// step is known to be blocked; all others run again as if nothing had happened.
void dispatcher::end_locked_out(group& ran, run_result const& result, clock::time_point now)
{
    auto& of = *ran.of;
    if (ran.is_locked_out) {
        of.locked_out_runs = false;
        of.locked_out_from = now;
    }
    if (result.processed() || result.not_processed->why != failure::lock_timeout) return;
    if (ran.tasks.size() == 1) {
        ran.tasks.front().locked_out = true;
        of.locked_out_from = now + std::max<clock::duration>(result.ran, locked_out_pause);
        of.blocked_until = now + blocked_for;
    }
    else if (auto const member = result.not_processed->member; member && *member < ran.tasks.size()) {
        ran.tasks[*member].alone = true;
        ran.tasks[*member].locked_out = now < of.blocked_until;
    }
    else if (now < of.blocked_until) {
        for (auto& t : ran.tasks) t.alone = true;
    }
}

void dispatcher::defer(task&& t, run_result::setback const& met, clock::time_point now, bool was_one)
{
    t.put_back(met.why, met.then, was_one);
    if (t.locked_out) return put(std::move(t), false);
    if (!was_one && met.why != failure::unavailable) return put(std::move(t), true);
    auto const& wait = met.why == failure::contended ? contended_wait : other_wait;
    later_.emplace(now + wait.wait(t.tries, random_), std::move(t));
}

}  // namespace skald::runtime
