#include "testing/prover.hpp"

#include "testing/causes.hpp"
#include "testing/lost_members.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

namespace skald::testing {

using namespace inner;
using namespace std::chrono_literals;

namespace {

std::string only_from_environment()
{
    char const* const only = std::getenv("SKALD_TESTING_ONLY");
    return only == nullptr ? "" : only;
}

bool is_of(std::string const& schedule, way const& w)
{
    return schedule == w.name || schedule.starts_with(w.name + "; ");
}

}  // namespace

prover::prover(simulation& w, scenario what, proof_options options)
    : simulation_{w}, what_{std::move(what)}, options_{std::move(options)}
{
    if (options_.only.empty()) options_.only = only_from_environment();
}

proof prover::prove()
{
    simulation_.require_hosted(what_);
    require_named(simulation_, options_);
    simulation_.begin();
    restoration_.emplace(simulation_, options_.remains);
    restoration_->remember();
    struct at_the_end
    {
        ~at_the_end()
        {
            all.limit_attempts(std::numeric_limits<int>::max());
            all.rules.observer = nullptr;
            all.end();
        }
        simulation& all;
    } const restore{simulation_};
    simulation_.limit_attempts(options_.attempts_max);
    if (keeps_all_members() && explore_all()) {
        if (options_.quick && options_.only.empty()) leave_repeated_places();
        planned_ = proof_.schedules() + (options_.quick ? 0 : options_.sampled);
        for (auto const& one : known_) planned_ += one.places.size();
        bool const has_passed = options_.only.empty() ? run_systematically() : run_only();
        if (has_passed && stays_inside() && options_.only.empty() && !options_.quick) run_samples();
    }
    proof_.time_ = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_);
    return std::move(proof_);
}

std::vector<way> prover::ways() const
{
    auto all = ways_of(what_.plan, [this](std::string_view step, bool is_forward) {
        return simulation_.started_kind_of(what_, step, is_forward);
    });
    if (what_.received) std::erase_if(all, &way::is_cancelled);  // no command is for a message
    if (options_.may_end_unknown)
        for (auto& one : all) one.final_statuses.emplace_back("unknown");
    return all;
}

bool prover::explore_all()
{
    auto ways = this->ways();
    // To run one schedule alone: its way, and the way that it is compared with.
    auto const named = std::ranges::find_if(ways, [this](way const& w) { return is_of(options_.only, w); });
    if (named != ways.end() && !named->is_cancelled()) {
        auto const only = *named;
        std::erase_if(ways, [&only](way const& w) { return w.name != only.name && w.name != only.like; });
    }
    return std::ranges::all_of(ways, [this](way const& along) { return explore(along); });
}

// What an upcast loses is lost undisturbed as well: no schedule would show it.
bool prover::keeps_all_members()
{
    if (what_.received) return true;
    for (auto const& planned : what_.plan) {
        auto const& steps = simulation_.service(std::string{planned.service}).steps();
        auto lost = lost_members(steps, what_, planned.name);
        std::erase_if(lost, [this](std::string const& member) {
            return std::ranges::any_of(options_.dropped, [&](std::string const& named) {
                return member == named || member.starts_with(named + '/');
            });
        });
        if (lost.empty()) continue;
        std::string names;
        for (auto const& one : lost) names.append(names.empty() ? "" : ", ").append(one);
        fail("an upcast loses what data of version " + std::to_string(what_.version) + " has: " + names, "forward", "",
             "whatever they hold, the step " + std::string{planned.name} +
                 " reads the same. Carry them over in the upcast, or name what is left out on purpose: {.dropped = "
                 "{\"" +
                 lost.front() + "\"}}");
        return false;
    }
    return true;
}

// Each place stays in the first way that passes it.
void prover::leave_repeated_places()
{
    std::vector<disturbance> seen;
    for (auto& along : known_) {
        std::erase_if(along.places, [&seen](disturbance const& one) {
            if (std::ranges::find(seen, one) != seen.end()) return true;
            seen.push_back(one);
            return false;
        });
    }
}

void prover::tell_progress()
{
    auto const now = std::chrono::steady_clock::now();
    if (now - told_ < (options_.progress ? 1s : 10s)) return;
    told_ = now;
    auto const run = proof_.schedules();
    if (options_.progress) options_.progress(run, planned_);
    else
        std::fprintf(stderr, "skald::testing: %.*s: %zu of %zu schedules after %lld s\n",
                     static_cast<int>(what_.definition.size()), what_.definition.data(), run, planned_,
                     static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(now - began_).count()));
}

// Runs it twice: a result that is not reproducible can't be compared with anything.
bool prover::explore(way const& along)
{
    schedule const clean{along, {}};
    auto const first = test_run{simulation_, what_, options_, clean}.run(&observations_);
    ++proof_.by_kind_["undisturbed"].run;
    if (outside_in_.empty() && !observations_.outside_transaction().empty()) outside_in_ = along.name;
    if (!leaves_session(first, along.name)) return false;
    if (!first.refused.empty()) return true;  // the saga is past its pivot by then: there is no such way
    auto const wrong = wrong_end(along, first);
    if (!wrong.empty()) {
        auto cause = observations_.cause();
        if (cause.empty()) cause = why_wrong_end(simulation_.rules.runs, unfinished_steps(simulation_));
        auto const errors = errors_of(simulation_);
        fail(wrong + (errors.empty() ? "" : ". Its steps said:\n" + errors), along.name, "", cause);
        return false;
    }
    if (!restores(first, along.name) || !is_like(along, first.left)) return false;
    auto const second = test_run{simulation_, what_, options_, clean}.run();
    ++proof_.by_kind_["undisturbed"].run;
    auto const differing = difference(first.left, second.left);
    if (!differing.empty()) {
        fail("two undisturbed runs differ", along.name, differing, suspects(differing) + why_runs_differ(differing));
        return false;
    }
    known_.push_back({along, first.left, disturbances_of(first.deliveries, first.visits)});
    return true;
}

// The next step uses the same connection: false if this one did not leave it as it found it.
bool prover::leaves_session(run_result const& result, std::string const& schedule)
{
    if (result.left_in_session.empty()) return true;
    auto const& [step, what] = *result.left_in_session.begin();
    fail("a step leaves something of its session behind", schedule, "",
         "the step " + step + " left behind in its session: " + what +
             ". That outlives its transaction, on a connection on which other steps run next. Skald resets the session "
             "before they do, except what is prepared: no step may rely on what another has set, and what one has "
             "prepared is in the next one's way.");
    return false;
}

// What is the same twice shows in no schedule; the rows of a step that is stuck, or not yet done, show it.
bool prover::stays_inside()
{
    if (outside_in_.empty()) return true;
    fail("a step makes its effect outside its transaction", outside_in_, "", observations_.outside_transaction());
    return false;
}

// Checked only for a compensated saga. Its databases are still as it left them.
bool prover::restores(run_result const& result, std::string const& schedule)
{
    if (what_.received || status_of(result.left, what_.definition) != "compensated") return true;
    auto const in_tables = restoration_->difference();
    auto const differing = in_tables + result.not_restored;
    if (differing.empty()) return true;
    auto cause = observations_.cause();
    if (cause.empty())
        cause = suspects(differing) +
                why_not_restored(simulation_.rules.runs, !in_tables.empty(), !result.not_restored.empty());
    fail("the saga was compensated, and has not left " +
             std::string{in_tables.empty() ? "what is watched outside as it was" : "your tables as they were"} +
             " before it",
         schedule, differing, cause);
    return false;
}

prover::known_way const* prover::known(std::string const& name) const
{
    auto const it = std::ranges::find(known_, name, [](known_way const& k) { return k.along.name; });
    return it == known_.end() ? nullptr : &*it;
}

// Some ways must lead to the same result: a step that failed once and one that did not; a rejection, and no run.
bool prover::is_like(way const& along, final_state const& left)
{
    auto const* const other = known(along.like);
    if (other == nullptr || status_of(left, what_.definition) == "unknown") return true;
    auto const differing = difference(other->left.effects, left.effects);
    if (differing.empty()) return true;
    auto cause = observations_.cause();
    if (cause.empty()) cause = suspects(differing) + why_unlike(along, simulation_.rules.runs, differing);
    fail("it leaves behind something else than \"" + along.like + "\" does", along.name, differing, cause);
    return false;
}

// Along "forward", all of it has to be done: also by the handlers of what it publishes, which the saga's status does
// not tell.
std::string prover::wrong_end(way const& along, run_result const& result)
{
    if (!result.problem.empty()) return "undisturbed, it did not end: " + result.problem;
    if (auto const nobody = without_handler(simulation_); !nobody.empty())
        return "undisturbed, a message goes to " + nobody + ", and its service has no handler of that name here";
    if (along.name == "forward") {
        if (auto const parked = parked_in(simulation_); !parked.empty())
            return "undisturbed, a delivery was parked:\n" + parked;
        auto const& first = what_.plan.front();
        if (what_.received && !is_completed(result.left, first.service, first.name))
            return "undisturbed, the handler " + std::string{first.name} + " does not complete";
    }
    if (what_.received) return {};  // only a saga has a status
    auto const status = status_of(result.left, what_.definition);
    if (std::ranges::find(along.final_statuses, status) != along.final_statuses.end()) return {};
    std::string wanted;
    for (auto const& one : along.final_statuses) wanted += (wanted.empty() ? "" : " or ") + one;
    return "undisturbed, the saga ends as " + (status.empty() ? "none" : status) + " and not as " + wanted;
}

bool prover::run_systematically()
{
    for (auto const& along : known_)
        for (auto const& one : along.places)
            if (!passes(along, {one}, one.kind(options_.copies))) return false;
    return true;
}

bool prover::run_samples()
{
    std::mt19937_64 random{options_.seed};
    auto const any = [&random](std::size_t count) {
        return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
    };
    for (std::size_t i = 0; i < options_.sampled; ++i) {
        auto const& along = known_[any(known_.size())];
        std::vector<disturbance> const pair{along.places[any(along.places.size())],
                                            along.places[any(along.places.size())]};
        if (!passes(along, pair, "two at once, sampled")) return false;
    }
    return true;
}

bool prover::run_only()
{
    known_way const* along = nullptr;
    auto const found = find(options_.only, along);
    if (found) return passes(*along, found->disturbances, "one schedule alone");
    std::string ways;
    for (auto const& one : this->ways()) ways.append("\n  ").append(one.name);
    fail("there is no schedule of that name", options_.only, "",
         "a schedule is a way, and what disturbs it, such as \"" + known_.front().along.name + "; " +
             known_.front().places.front().name(options_.copies) + "\". The ways are:" + ways);
    return false;
}

std::optional<schedule> prover::find(std::string const& name, known_way const*& along) const
{
    for (auto const& one : known_) {
        if (!is_of(name, one.along)) continue;
        along = &one;
        schedule found{one.along, {}};
        auto rest = name.substr(one.along.name.size());
        while (!rest.empty()) {
            auto const end = rest.find("; ", 2);
            auto const part = rest.substr(2, end == std::string::npos ? end : end - 2);
            auto const it =
                std::ranges::find_if(one.places, [&](auto const& p) { return p.name(options_.copies) == part; });
            if (it == one.places.end()) return {};
            found.disturbances.push_back(*it);
            rest = end == std::string::npos ? "" : rest.substr(end);
        }
        return found;
    }
    return {};
}

bool prover::passes(known_way const& along, std::vector<disturbance> const& disturbances, std::string const& kind)
{
    schedule const now{along.along, disturbances};
    auto const result = test_run{simulation_, what_, options_, now}.run();
    auto& count = proof_.by_kind_[kind];
    ++count.run;
    tell_progress();
    if (!result.all_met) ++count.not_met;
    if (differs(along, result).empty()) {
        // With no effects named, all tables have just been compared with those of a way that restores them.
        bool const is_sure = options_.effects.empty() && result.not_restored.empty();
        return is_sure || restores(result, now.name(options_.copies));
    }
    for (auto const& one : disturbances) {
        schedule const shorter{along.along, {one}};
        if (disturbances.size() == 1 || differs(along, test_run{simulation_, what_, options_, shorter}.run()).empty())
            continue;
        blame(along, shorter);
        return false;
    }
    blame(along, now);
    return false;
}

// Empty if it left behind what it should. A cancel command may reach the saga earlier or later, depending on timing:
// then the result is compared with an undisturbed run that took the same steps.
std::string prover::differs(known_way const& along, run_result const& result) const
{
    if (!result.problem.empty()) return result.problem;
    if (options_.may_end_unknown && status_of(result.left, what_.definition) == "unknown") return {};
    auto const own = difference(along.left, result.left);
    if (own.empty() || !along.along.is_cancelled()) return own;
    for (auto const& other : known_)
        if (difference(other.left, result.left).empty()) return {};
    return own;
}

void prover::blame(known_way const& along, schedule const& shortest)
{
    auto const result = test_run{simulation_, what_, options_, shortest}.run(&observations_);
    auto differing = differs(along, result);
    if (differing.empty()) {
        fail("it leaves behind something else, though not every time", shortest.name(options_.copies), "",
             why_not_every_time());
        return;
    }
    auto cause = observations_.cause();
    if (cause.empty()) cause = suspects(differing) + why_disturbed();
    fail("it leaves behind something else than it does undisturbed", shortest.name(options_.copies), differing, cause);
}

// "look at charge-payment: ", by the services whose rows differ, or by who makes calls. Empty if they are none's.
std::string prover::suspects(std::string const& difference) const
{
    std::string names;
    bool const is_outside = difference.find("  outside: ") != std::string::npos;
    for (auto const& step : what_.plan)
        if (difference.find("  " + std::string{step.service} + ": ") != std::string::npos ||
            (is_outside &&
             (simulation_.makes_calls(step.name) || simulation_.makes_calls(std::string{step.name} + ".compensate"))))
            names.append(names.empty() ? "" : ", ").append(step.name);
    return names.empty() ? "" : "look at " + names + ": ";
}

void prover::fail(std::string failure, std::string schedule, std::string difference, std::string cause)
{
    proof_.failure_ = std::move(failure);
    proof_.failed_schedule_ = std::move(schedule);
    proof_.difference_ = std::move(difference);
    proof_.cause_ = std::move(cause);
}

}  // namespace skald::testing
