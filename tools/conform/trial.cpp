#include "conform/trial.hpp"

#include "conform/at_home.hpp"
#include "core/uuid.hpp"
#include "duplicator/duplicator.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace skald::conform {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto glance = 20ms;
constexpr auto copies_within = 2s;
constexpr auto copies_patience = 60s;
constexpr auto stop_patience = 10s;
constexpr auto gone_patience = 10s;     // until the broker has seen that they are gone
constexpr auto quiet = 1s;              // what is held unacked by a process no figure shows
constexpr auto after_a_cut = 10s;       // a process may end because its connection has broken
constexpr auto command_patience = 60s;  // until it consumes
constexpr int false_starts_max = 5;
constexpr int stops_max = 3;

}  // namespace

trial::trial(trial_options options)
    : options_{std::move(options)}, database_{options_.database}, wire_{options_.broker_url, options_.service},
      relay_{options_.relay, options_.log}
{
    if (auto const messages = database_.unsent(); messages > 0)
        throw configuration_error{
            fmt::format("the outbox of this database holds {} messages, which would be sent during the run: take a new "
                        "database for this (scripts/stack.sh up)",
                        messages)};
    for (int n = 0; n < options_.processes; ++n)
        processes_.push_back(std::make_unique<process>(options_.command, options_.log));
}

trial::~trial()
{
    for (auto const& one : processes_) one->kill();
    relay_.kill();
    try {
        await_no_consumers();  // what they had comes back then
        wire_.purge();
        database_.forget_unsent();
    }
    catch (std::exception const&) {
        return;  // the next run says that they are not empty
    }
}

seen trial::run(plan const& planned, std::vector<spoilt_message> const& spoilt)
{
    ends_at_ = clock::now() + options_.longest;
    relay_.start();
    start_all();
    if (!await_consumers())
        throw configuration_error{fmt::format(
            "`{}` does not consume the queue skald.{}: {}", options_.command, options_.service,
            seen_.ended_by_itself > 0 ? "it ends by itself, and has printed why" : "look at what it has printed")};
    seen_.ended_by_itself = 0;
    options_.tell(
        fmt::format("{} sagas and {} spoilt messages, each several times", planned.duplicated.size(), spoilt.size()));
    send_duplicated(planned, spoilt);

    options_.tell("without duplicates: processes are killed, connections break, and steps wait");
    for (auto const& s : planned.alone) {
        if (s.trouble) trouble_in(s);
        else send_first(s, wire::way::queue);
    }
    await_end_of(planned.alone);
    options_.tell("SIGTERM to all processes, while each of them has deliveries");
    stop_under_load(planned.at_stop);
    await_end_of(planned.at_stop);
    settle();
    stop_and_count();
    database_.read(options_.run, seen_);
    seen_.at = database_.clock();
    return std::move(seen_);
}

void trial::start_all()
{
    for (auto const& one : processes_) one->start();
}

void trial::kill_all()
{
    for (auto const& one : processes_) one->kill();
    ++seen_.kills;
    await_no_consumers();
}

bool trial::await_consumers()
{
    auto const until = clock::now() + command_patience;
    auto const ended = seen_.ended_by_itself;
    while (wire_.look().consumers < processes_.size()) {
        pump();
        if (seen_.ended_by_itself >= ended + false_starts_max || clock::now() > std::min(until, ends_at_)) return false;
    }
    return true;
}

// A program that lives on is neither killed nor ended, and its deliveries do not come back.
void trial::await_no_consumers()
{
    for (auto const until = clock::now() + gone_patience; wire_.look().consumers > 0; wire_.wait(glance)) {
        if (clock::now() > until)
            throw configuration_error{fmt::format(
                "`{}` has ended, and something that it started lives on and consumes the queue skald.{}: end that "
                "yourself, begin the command with `exec`, and start the program in its process group (no `docker run`, "
                "no `setsid`)",
                options_.command, options_.service)};
    }
}

void trial::send_duplicated(plan const& planned, std::vector<spoilt_message> const& spoilt)
{
    tools::duplicator_options wanted;
    wanted.broker_url = options_.broker_url;
    wanted.services = {options_.service};
    wanted.times = 2;
    wanted.delay = tools::now_and_later(copies_within);
    wanted.seed = options_.seed;
    tools::duplicator copies{std::move(wanted)};

    auto const each = planned.duplicated.size() / spoilt.size() + 1;
    for (std::size_t n = 0; n < std::max(planned.duplicated.size(), spoilt.size() * each); ++n) {
        if (n < planned.duplicated.size()) send_first(planned.duplicated[n], wire::way::exchange);
        if (auto const which = n / each; n % each == 0 && which < spoilt.size()) {
            auto const& bad = spoilt[which];
            send(bad.message, bad.is_given_up ? wire::way::parked : wire::way::exchange, bad.form);
        }
    }
    await_end_of(planned.duplicated);
    for (auto const& s : planned.duplicated) send_again(s);
    auto const until = clock::now() + copies_patience;
    while (!copies.finish(glance) && clock::now() < until) pump();
    copies.check();
    seen_.duplicates = copies.so_far().duplicates;
    await("the duplicates to be taken from the queue", [&] { return wire_.look().ready == 0; });
}

void trial::send_first(saga const& s, wire::way by)
{
    if (s.is_cancelled) {
        send(s.cancel(options_.service, core::make_uuid_v7(), database_.clock()), by);
        await("a cancel to be taken from the queue", [&] { return database_.has_command(s.name); });
    }
    if (s.comes_backwards) {
        send(s.message(options_.service, "charge.compensate"), by);
        await("the compensation that comes first", [&] { return has_ended(s); });
    }
    send(s.message(options_.service, "charge"), s.is_dead_lettered ? wire::way::parked : by,
         s.is_numbered ? wire_form::attempt_is_number : wire_form::text);
}

// After its end: nothing of this may have an effect. It would make good what was lost of the parked queue.
void trial::send_again(saga const& s)
{
    if (s.is_dead_lettered) return;
    send(s.message(options_.service, "charge"), wire::way::exchange);
    if (!s.is_sent_changed) return;
    auto other = s.message(options_.service, "charge");
    other.body += ' ';
    send(other, wire::way::exchange);
}

void trial::trouble_in(saga const& s)
{
    auto const where = place_of(s.trouble->what);
    auto const line = s.line(s.trouble->step);
    database_.hold(line, where);
    send_first(s, wire::way::queue);
    std::optional<int> session;
    await(fmt::format("{} of {}, which is held there", s.trouble->step, s.name.second),
          [&] { return (session = database_.held(line, where)).has_value() || has_ended(s); });
    if (session) strike(s, *session);
    database_.release();
    if (!session || !is_kill(s.trouble->what)) return;
    start_all();
    await_consumers();  // or the next step is waited for while they start
}

void trial::strike(saga const& s, int session)
{
    auto const what = s.trouble->what;
    seen_.struck.insert(s.name);
    if (s.trouble->step == "ship" && place_of(what) == place::commit) {
        pump_for(quiet);
        if (auto const told = seen_.sagas.find(s.name); told != seen_.sagas.end() && !told->second.events.empty())
            seen_.sent_early.insert(s.name);
    }
    if (is_kill(what)) kill_all();
    if (what == trouble::deadlock) return database_.refuse(s.line(s.trouble->step), "40P01", session);
    if (what == trouble::lock_timeout) return database_.refuse(s.line(s.trouble->step), "55P03", session);
    if (what != trouble::kill_kept_commit) database_.end_session(session);
    if (!is_cut(what)) return;
    may_end_ = (clock::now() > may_end_until_ ? 0 : may_end_) + 1;
    may_end_until_ = clock::now() + after_a_cut;
}

// The first sagas hold each consumer, so that it has prefetched the others when it is told to end.
void trial::stop_under_load(std::vector<saga> const& all)
{
    auto const holders =
        std::clamp<std::size_t>(wire_.look().consumers, processes_.size(), all.size() - processes_.size());
    hold_each_process(all, holders);
    for (std::size_t n = holders; n < all.size(); ++n) send_first(all[n], wire::way::queue);
    pump_for(quiet);
    terminate_all();
    look_away_for(quiet);
    database_.release();
    await_ends();
    start_all();
    await_consumers();
}

// A process with several consumers may run one step at a time: then fewer are held, and no fewer than the processes.
void trial::hold_each_process(std::vector<saga> const& all, std::size_t holders)
{
    for (std::size_t n = 0; n < holders; ++n) database_.hold(all[n].line("charge"), place::step);
    for (std::size_t n = 0; n < holders; ++n) send_first(all[n], wire::way::queue);
    auto const enough_at = clock::now() + quiet;
    std::set<saga_name> free;
    await("charge, which each process holds", [&] {
        free.clear();
        for (std::size_t n = 0; n < holders; ++n)
            if (!database_.held(all[n].line("charge"), place::step)) free.insert(all[n].name);
        return free.empty() || (holders - free.size() >= processes_.size() && clock::now() > enough_at);
    });
    if (holders - free.size() < processes_.size()) seen_.not_held = std::move(free);
}

void trial::await_end_of(std::vector<saga> const& all)
{
    for (auto const& s : all) {
        auto const is_over = [&] {
            open_gates();
            return has_ended(s);
        };
        if (!await(fmt::format("the end of {} ({})", s.name.second, s.what), is_over)) return;
    }
}

// Of each saga that has snoozed: one that comes late must not find its gate open.
void trial::open_gates()
{
    for (auto const& name : database_.snoozed(options_.run))
        if (opened_.insert(name).second) database_.open_gate(name);
}

// Until nothing is under way any more.
void trial::settle()
{
    await("an empty queue and an empty outbox", [&] { return wire_.look().ready == 0 && database_.unsent() == 0; });
    pump_for(quiet);
}

void trial::terminate_all()
{
    for (auto const& one : processes_) one->terminate();
}

void trial::await_ends()
{
    auto const until = clock::now() + stop_patience;
    for (auto const& one : processes_)
        if (!one->await_end(until)) ++seen_.not_stopped;
    await_no_consumers();
}

// What no process has acked comes back when it ends. A process may be in the middle of a copy when it is told to.
void trial::stop_and_count()
{
    for (int stops = 0; stops < stops_max; ++stops) {
        if (stops > 0) {
            start_all();
            await_consumers();
            settle();
        }
        terminate_all();
        await_ends();
        look_away_for(quiet);
        seen_.left = wire_.look().ready;
        seen_.unsent = database_.unsent();
        if (seen_.left == 0) return;
    }
}

void trial::send(core::message const& message, wire::way by, wire_form form)
{
    wire_.send(message, by, form);
    ++seen_.sent;
    pump();
}

void trial::pump()
{
    if (options_.is_interrupted()) throw interrupted{"ended from outside: this run says nothing"};
    if (!relay_.is_running())
        throw relay_ended{"the relay that was started beside the participant has ended, and has printed why: this run "
                          "says nothing"};
    wire_.wait(glance);
    while (auto const message = wire_.next()) {
        if (take_at_home(*message, options_.run, seen_.sagas)) ++came_;
    }
    look_after();
}

void trial::pump_for(std::chrono::milliseconds time)
{
    for (auto const until = clock::now() + time; clock::now() < until;) pump();
}

void trial::look_away_for(std::chrono::milliseconds time)
{
    for (auto const until = clock::now() + time; clock::now() < until;) wire_.wait(glance);
}

void trial::look_after()
{
    for (auto const& one : processes_) {
        if (one->is_running()) continue;
        if (may_end_ > 0 && clock::now() <= may_end_until_) --may_end_;
        else ++seen_.ended_by_itself;
        one->start();
    }
}

bool trial::has_ended(saga const& s) const
{
    auto const found = seen_.sagas.find(s.name);
    return found != seen_.sagas.end() && !found->second.ends.empty();
}

bool trial::await(std::string_view what, std::function<bool()> const& condition)
{
    auto moved = clock::now();
    auto came = came_;
    auto least = std::numeric_limits<std::uint32_t>::max();
    while (!condition()) {
        pump();
        // The queue counts only when it is shorter than ever: that of a step which waits goes up and down.
        if (auto const ready = wire_.look().ready; came_ != came || ready < least) {
            came = came_;
            least = std::min(least, ready);
            moved = clock::now();
        }
        if (clock::now() > ends_at_) {
            if (seen_.waited_for.empty()) seen_.waited_for = what;
            return false;
        }
        if (clock::now() - moved > options_.patience) return false;
    }
    return true;
}

}  // namespace skald::conform
