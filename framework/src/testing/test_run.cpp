#include "testing/test_run.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

// No saga needs this many; one that loops does.
constexpr int deliveries_max = 1'000;

}  // namespace

void require_named(simulation const& w, proof_options const& options)
{
    auto const services = w.services();
    for (auto const& one : options.effects)
        if (std::ranges::find(services, one.service) == services.end())
            throw std::invalid_argument{"effects: " + one.service + ": no step of that service is hosted here"};
    for (auto const& one : options.signals) {
        bool waits = false;
        w.for_each_hosted([&](node::hosted const& hosted) {
            auto const* const work = hosted.as.step->external(true);
            waits = waits || (hosted.step == one.step && work != nullptr && work->takes_signal());
        });
        if (!waits) throw std::invalid_argument{"signals: " + one.step + ": no step of that name waits for one here"};
    }
}

test_run::test_run(simulation& w, scenario const& what, proof_options const& options, schedule const& plan)
    : simulation_{w}, what_{what}, options_{options}, plan_{plan}
{}

run_result test_run::run(observations* watcher)
{
    simulation_.begin();
    auto const before = to_be_restored(simulation_);
    plan_.along.apply(simulation_.rules);
    for (auto const& one : plan_.disturbances) {
        if (auto const* const point = std::get_if<crash_point>(&one.what))
            simulation_.fault_plan.plan({one.delivery, *point, one.nth});
        else left_.push_back(one);
    }
    simulation_.inspect_sessions(watcher != nullptr);
    if (watcher != nullptr) watcher->watch(simulation_, options_.effects);
    try {
        simulation_.start(what_, {.key = std::string{proved_key}, .scope = {}, .deadline = {}});
        play();
    }
    catch (skald::configuration_error const&) {
        throw;
    }
    catch (std::exception const& error) {
        result_.problem = error.what();
    }
    result_.all_met = left_.empty() && simulation_.fault_plan.planned().empty();
    result_.visits = simulation_.fault_plan.visits();
    result_.left_in_session = simulation_.rules.left;
    result_.left = final_state_of(simulation_, options_.effects);
    result_.not_restored = difference(before, to_be_restored(simulation_));
    if (watcher != nullptr) watcher->collect(simulation_);
    return std::move(result_);
}

void test_run::play()
{
    for (int count = 0; go_on(); ++count) {
        if (count == deliveries_max)
            throw std::runtime_error{"the saga does not end: " + std::to_string(count) + " deliveries were processed"};
        if (is_time_to_cancel()) cancel();
        else deliver_first();
    }
}

// Whether there is something to deliver, now, or after started steps have gone on, or after some time.
bool test_run::go_on()
{
    for (int count = 0;; ++count) {
        if (count == deliveries_max) throw std::runtime_error{"the saga does not end: its started steps go on and on"};
        if (simulation_.pull()) return true;
        if (!cancelled_ && is_started(plan_.along.cancelled_while)) {
            cancel();
            continue;
        }
        if (gives_signal() || simulation_.go_on()) continue;
        if (simulation_.advance_to_next()) continue;
        if (late_.empty()) return false;
        for (auto const& one : std::exchange(late_, {})) simulation_.send_again(one);
    }
}

bool test_run::is_started(std::string const& step)
{
    if (step.empty()) return false;
    auto const steps = simulation_.started();
    return std::ranges::find(steps, step) != steps.end();
}

// What a step waits for comes as soon as it waits.
bool test_run::gives_signal()
{
    for (auto const& one : options_.signals) {
        bool const is_given = std::ranges::find(signalled_, one.step) != signalled_.end();
        if (is_given || one.step == plan_.along.not_signalled || !is_started(one.step)) continue;
        signalled_.push_back(one.step);
        simulation_.signal({{}, std::string{proved_key}}, one.step, one.json);
        return true;
    }
    return false;
}

bool test_run::is_time_to_cancel()
{
    return !cancelled_ && !plan_.along.cancelled_before.empty() &&
           simulation_.hand().front().name == plan_.along.cancelled_before;
}

// The command overtakes the step, so that the step meets it.
void test_run::cancel()
{
    cancelled_ = true;
    result_.refused = simulation_.cancel({{}, std::string{proved_key}});
    simulation_.pull();
    simulation_.bring_forward([](held const& h) { return h.name.starts_with("control@"); });
}

void test_run::record(held const& next)
{
    bool const is_known =
        std::ranges::find(result_.deliveries, next.name, &delivered::name) != result_.deliveries.end();
    if (!is_known) result_.deliveries.push_back({next.name, simulation_.hand().size() > 1});
}

bool test_run::take(std::string const& delivery, manner how)
{
    auto const it = std::ranges::find(left_, disturbance{delivery, how, 1});
    if (it == left_.end()) return false;
    left_.erase(it);
    return true;
}

void test_run::deliver_first()
{
    auto const first = simulation_.hand().front();
    record(first);
    if (simulation_.hand().size() > 1 && take(first.name, manner::after_neighbour)) {
        simulation_.swap_with_next(0);
        return;
    }
    bool const at_once = take(first.name, manner::twice_at_once);
    int const copies = take(first.name, manner::twice)           ? 1
                       : take(first.name, manner::several_times) ? options_.copies - 1
                                                                 : 0;
    if (take(first.name, manner::late)) late_.push_back(first.delivery.message);
    if (at_once) simulation_.process_twice_at_once(0);
    else simulation_.process(0);
    for (int i = 0; i < copies; ++i) simulation_.process_copy(first);
}

}  // namespace skald::testing::inner
