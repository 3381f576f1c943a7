#include "runtime/started_loop.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Ends that wait for a thread that records them; more would only grow old in memory.
constexpr std::size_t settles_max = 64;

// For a step that this process does not have, and another one of its service may.
constexpr auto unrecognized_wait = 5s;
constexpr auto unhosted_here = "the process that took it does not have this step";  // doctor.sql looks for it

core::breaker_settings settings_of(dependency_limits const& limits)
{
    core::breaker_settings s;
    s.at_a_time = limits.at_a_time;
    s.per_second = limits.per_second;
    s.window = limits.window;
    s.calls_min = limits.calls_min;
    s.bad_percent = static_cast<std::uint64_t>(limits.failures * 100);
    s.slow_after = limits.slow;
    s.open_for = {limits.open_first, limits.open_longest};
    return s;
}

// Calls `what` with everything that a step does after its first transaction, and the step's options.
template <class What>
void for_each_work(registry const& steps, What what)
{
    steps.for_each([&what](auto const&, auto const&, registered_step const& one) {
        for (bool const is_forward : {true, false})
            if (auto const* const work = one.step->external(is_forward)) what(*work, one.options);
    });
}

}  // namespace

started_loop::started_loop(started_options options, std::string service, registry const& steps,
                           std::map<std::string, dependency_limits> const& limits, ports::started_steps& table,
                           ports::started_steps& heartbeats, core::logger& log)
    : options_{std::move(options)}, service_{std::move(service)}, steps_{steps}, table_{table},
      heartbeats_{heartbeats}, log_{log}, notes_{options_.owner, table}
{
    dependency_limits none;
    none.at_a_time = options_.calls;
    none.calls_min =
        std::numeric_limits<std::size_t>::max();  // it has no name: nobody knows what it would be that is ill
    dependencies_.emplace("", dependency{core::breaker{settings_of(none)}});
    for_each_work(steps, [this](auto const& work, step_options const& of) {
        if (work.is_call()) called_.insert(of.call.dependency);
        else has_waits_ = true;
    });
    for (auto const& [name, of] : limits) dependencies_.emplace(name, dependency{core::breaker{settings_of(of)}});
}

started_loop::~started_loop() = default;

bool started_loop::is_needed(registry const& steps)
{
    bool found = false;
    for_each_work(steps, [&found](auto const&, auto const&) { found = true; });
    return found;
}

void started_loop::notify()
{
    std::lock_guard const lock{mutex_};
    is_notified_ = true;
    changed_.notify_all();
}

void started_loop::stop()
{
    std::lock_guard const lock{mutex_};
    is_stopped_ = true;
    for (auto const& one : held_) one->stops = true;
    // What has not been called yet is taken up by another process at once.
    for (auto const& one : to_call_) {
        to_release_.push_back(one->uncalled());
        if (one->breaker_call)
            dependencies_.at(one->dependency_name)
                .breaker.ended(*std::exchange(one->breaker_call, {}), clock::now(), core::call_result::nothing);
        std::erase(held_, one);
    }
    to_call_.clear();
    changed_.notify_all();
}

std::vector<dependency_state> started_loop::dependencies() const
{
    std::lock_guard const lock{mutex_};
    std::vector<dependency_state> all;
    for (auto const& [name, of] : dependencies_)
        if (!name.empty()) all.push_back({name, of.breaker.status(clock::now())});
    return all;
}

bool started_loop::has_ended() const
{
    return is_stopped_ && held_.empty() && to_release_.empty() && locked_.empty();
}

void started_loop::run()
{
    while (true) {
        {
            std::unique_lock lock{mutex_};
            if (has_ended()) break;
            changed_.wait_for(lock, until_next(),
                              [this] { return is_notified_ || has_ended() || !to_release_.empty(); });
            is_notified_ = false;
        }
        try {
            keep();
        }
        // Also what is no fault of the database: rows that were taken come due again when their leases end.
        catch (std::exception const& met) {
            log_.warning("started.waiting", {{"error", met.what()}});
            std::unique_lock lock{mutex_};
            changed_.wait_for(lock, options_.poll, [this] { return is_stopped_; });
            if (is_stopped_) to_release_.clear(), locked_.clear();  // the leases end by themselves
        }
    }
    notes_.forget_all();
    std::lock_guard const lock{mutex_};
    keeper_has_ended_ = true;
    changed_.notify_all();
}

// One round: the leases, what is given back, and then what is due.
void started_loop::keep()
{
    renew();
    release_all();
    notes_.update(dependencies());
    {
        std::lock_guard const lock{mutex_};
        if (is_stopped_) return;
    }
    std::size_t taken = has_waits_ ? take_waits() : 0;
    if (!called_.empty()) taken += take_ending();
    for (auto const& name : called_) taken += take_calls(name);
    // There may be more.
    if (taken > 0) notify();
}

// One that another transaction has locked is not waited for: the leases of all others are renewed by this thread.
void started_loop::release_all()
{
    std::unique_lock lock{mutex_};
    to_release_.insert(to_release_.end(), locked_.begin(), locked_.end());
    locked_.clear();
    while (!to_release_.empty()) {
        auto const what = to_release_.front();
        lock.unlock();
        auto const became = table_.release(what);
        lock.lock();
        to_release_.pop_front();
        // A process that stops leaves it to the end of its lease.
        if (became == ports::release_result::locked && !is_stopped_) locked_.push_back(what);
    }
}

std::size_t started_loop::room_to_settle() const
{
    std::lock_guard const lock{mutex_};
    return settles_max - std::min(settles_max, to_settle_.size());
}

std::size_t started_loop::take_waits()
{
    auto const room = room_to_settle();
    if (room == 0) return 0;
    auto const asked = clock::now();
    auto rows = table_.take(options_.owner, ports::started_kind::wait, "", room);
    SKALD_FAILPOINT_IF(!rows.empty(), "wait.taken");
    auto const count = rows.size();
    for (auto& row : rows) begin(std::move(row), asked);
    return count;
}

// Also while the other side is ill: what is known without it does not wait for it.
std::size_t started_loop::take_ending()
{
    auto const room = room_to_settle();
    if (room == 0) return 0;
    auto const asked = clock::now();
    auto rows = table_.take_ending(options_.owner, room);
    SKALD_FAILPOINT_IF(!rows.empty(), "call.taken");
    auto const count = rows.size();
    for (auto& row : rows) begin(std::move(row), asked);
    return count;
}

std::size_t started_loop::take_calls(std::string const& name)
{
    std::size_t room = 0;
    {
        std::lock_guard const lock{mutex_};
        std::size_t const calling = static_cast<std::size_t>(
            std::ranges::count_if(held_, [](auto const& one) { return one->breaker_call.has_value(); }));
        if (calling < options_.calls && to_settle_.size() < settles_max)
            room = std::min(options_.calls - calling, dependencies_.at(name).breaker.room(clock::now()));
    }
    if (room == 0) return 0;
    auto const asked = clock::now();
    auto rows = table_.take(options_.owner, ports::started_kind::call, name, room);
    SKALD_FAILPOINT_IF(!rows.empty(), "call.taken");
    auto const count = rows.size();
    for (auto& row : rows) begin(std::move(row), asked);
    return count;
}

void started_loop::begin(ports::started_steps::taken&& row, clock::time_point asked)
{
    auto const id = row.id;
    auto unhosted = uncalled(row, unrecognized_wait);
    unhosted.why = unhosted_here;
    auto step = recognize(std::move(row), service_, steps_);
    if (!step) {
        log_.warning("started.not_hosted", {{"key", id.saga.key}, {"step", id.step}});
        table_.release(unhosted);
        return;
    }
    auto next = decide(*step);
    auto const called = step->work->is_call() ? step->hosted().options.call.dependency : std::string{};
    auto const one = std::make_shared<held_step>(*std::move(step), called, asked,
                                                 [this](auto const& now) { return renew_one(now); });
    {
        std::lock_guard const lock{mutex_};
        held_.push_back(one);
    }
    follow(one, std::move(next));
}

void started_loop::follow(std::shared_ptr<held_step> const& one, started_next&& next)
{
    if (auto* const what = std::get_if<ports::started_release>(&next)) return release(one, *what);
    std::lock_guard const lock{mutex_};
    if (auto* const end = std::get_if<second_transaction>(&next)) {
        to_settle_.emplace_back(one, std::move(*end));
    }
    else if (auto& breaker = dependencies_.at(one->dependency_name).breaker;
             !is_stopped_ && breaker.room(clock::now()) > 0) {
        one->breaker_call = breaker.began(clock::now());
        to_call_.push_back(one);
    }
    else {
        // The breaker is open, or the process stops. That costs no attempt.
        auto then = is_stopped_ ? started_next{one->uncalled()} : unable_to_look(one->step);
        if (auto* const told = std::get_if<second_transaction>(&then)) {
            to_settle_.emplace_back(one, std::move(*told));
        }
        else {
            to_release_.push_back(std::get<ports::started_release>(then));
            std::erase(held_, one);
        }
    }
    changed_.notify_all();
}

ports::started_steps::renewal started_loop::renew_one(ports::started_steps::held const& now)
{
    std::lock_guard const lock{heartbeat_mutex_};
    return heartbeats_.renew({&now, 1}).front();
}

// By the keeper, whose connection it needs.
void started_loop::release(std::shared_ptr<held_step> const& one, ports::started_release const& what)
{
    std::lock_guard const lock{mutex_};
    to_release_.push_back(what);
    std::erase(held_, one);
    changed_.notify_all();
}

void started_loop::forget(std::shared_ptr<held_step> const& one)
{
    std::lock_guard const lock{mutex_};
    std::erase(held_, one);
    is_notified_ = true;  // there is room again
    changed_.notify_all();
}

// Those whose lease is a third over. A call that has been silent for too long is not renewed: somebody else takes over.
void started_loop::renew()
{
    auto const now = clock::now();
    std::vector<std::shared_ptr<held_step>> due;
    std::vector<ports::started_steps::held> asked;
    {
        std::lock_guard const lock{mutex_};
        for (auto const& one : held_) {
            auto const lease = one->step.row.lease;
            if (one->is_past_deadline(now)) one->stops = true;
            if (one->lost || one->lease_ends.load() - now > lease * 2 / 3) continue;
            auto const silence = one->step.hosted().options.call.silence;
            if (one->is_calling && now - one->last_sign.load() > silence) {
                if (!std::exchange(one->is_silent, true))
                    log_.error("call.silent", {{"key", one->step.delivery.step()->key().text()},
                                               {"ms", std::int64_t{silence.count()}}});
                continue;
            }
            due.push_back(one);
            asked.push_back({one->step.row.id, {}});
        }
    }
    if (due.empty()) return;
    auto const met = table_.renew(asked);
    for (std::size_t n = 0; n < due.size(); ++n) {
        due[n]->take_renewal(met[n], now);
        if (!met[n].is_ours) log_.warning("call.lost", {{"key", due[n]->step.delivery.step()->key().text()}});
    }
}

std::chrono::milliseconds started_loop::until_next() const
{
    auto least = options_.poll;
    for (auto const& one : held_) least = std::min<std::chrono::milliseconds>(least, one->step.row.lease / 6);
    return std::max(least, 10ms);
}

void started_loop::run_calls()
{
    std::mt19937_64 random{std::random_device{}()};
    std::unique_lock lock{mutex_};
    while (true) {
        changed_.wait(lock, [this] { return !to_call_.empty() || is_stopped_; });
        if (to_call_.empty()) return;
        auto const one = to_call_.front();
        to_call_.pop_front();
        lock.unlock();
        started_next next = take_look{};
        auto how = core::call_result::nothing;
        try {
            next = one->go_on(how, log_, random);
        }
        catch (std::exception const& error) {
            // Not the user's code, whose exceptions end there. What it has done is not known.
            next = after_call(one->step, {call_outcome::end::unknown, error.what()}, false, random);
        }
        ended(one, how);
        follow(one, std::move(next));
        lock.lock();
    }
}

void started_loop::ended(std::shared_ptr<held_step> const& one, core::call_result how)
{
    one->is_calling = false;
    std::lock_guard const lock{mutex_};
    auto& breaker = dependencies_.at(one->dependency_name).breaker;
    if (auto const changed = breaker.ended(*std::exchange(one->breaker_call, {}), clock::now(), how))
        log_.warning(
            "dependency.changed",
            {{"dependency", one->dependency_name}, {"state", core::to_string(changed->to)}, {"why", changed->why}});
}

}  // namespace skald::runtime
