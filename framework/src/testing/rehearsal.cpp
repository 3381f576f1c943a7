#include "testing/rehearsal.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

// No saga needs as many; one that goes in circles does.
constexpr int deliveries_max = 1'000;

constexpr auto saga_key = "proof";

}  // namespace

rehearsal::rehearsal(world& w, scenario const& what, proof_options const& options, schedule const& plan)
    : world_{w}, what_{what}, options_{options}, plan_{plan}
{}

run_result rehearsal::run(evidence* watcher)
{
    world_.begin();
    plan_.along.apply(world_.rules);
    for (auto const& one : plan_.disturbances) {
        if (auto const* const point = std::get_if<crash_point>(&one.what))
            world_.stage.plan({one.delivery, *point, one.nth});
        else left_.push_back(one);
    }
    world_.look_at_sessions(watcher != nullptr);
    if (watcher != nullptr) watcher->watch(world_, options_.effects);
    try {
        world_.start(what_, {.key = saga_key, .scope = {}, .deadline = {}});
        play();
    }
    catch (skald::configuration_error const&) {
        throw;
    }
    catch (std::exception const& error) {
        result_.problem = error.what();
    }
    result_.all_met = left_.empty() && world_.stage.planned().empty();
    result_.visits = world_.stage.visits();
    result_.left_in_session = world_.rules.left;
    result_.left = ending_of(world_, options_.effects);
    if (watcher != nullptr) watcher->take_notes(world_);
    return std::move(result_);
}

void rehearsal::play()
{
    for (int count = 0; go_on(); ++count) {
        if (count == deliveries_max)
            throw std::runtime_error{"it does not come to rest: " + std::to_string(count) + " deliveries were settled"};
        if (is_time_to_cancel()) cancel();
        else deliver_first();
    }
}

// Whether there is something to deliver, now or after a while.
bool rehearsal::go_on()
{
    for (;;) {
        if (world_.pull()) return true;
        if (auto const due = world_.next_due()) {
            world_.advance(*due);
            continue;
        }
        if (late_.empty()) return false;
        for (auto const& one : std::exchange(late_, {})) world_.send_again(one);
    }
}

bool rehearsal::is_time_to_cancel()
{
    return !cancelled_ && !plan_.along.cancelled_before.empty() &&
           world_.hand().front().name == plan_.along.cancelled_before;
}

// The order overtakes the step, so that the step meets it.
void rehearsal::cancel()
{
    cancelled_ = true;
    result_.refused = world_.cancel({{}, saga_key});
    world_.pull();
    world_.bring_forward([](held const& h) { return h.name.starts_with("control@"); });
}

void rehearsal::note(held const& next)
{
    bool const is_known =
        std::ranges::find(result_.deliveries, next.name, &delivered::name) != result_.deliveries.end();
    if (!is_known) result_.deliveries.push_back({next.name, world_.hand().size() > 1});
}

bool rehearsal::take(std::string const& delivery, manner how)
{
    auto const it = std::ranges::find(left_, disturbance{delivery, how, 1});
    if (it == left_.end()) return false;
    left_.erase(it);
    return true;
}

void rehearsal::deliver_first()
{
    auto const first = world_.hand().front();
    note(first);
    if (world_.hand().size() > 1 && take(first.name, manner::after_neighbour)) {
        world_.swap_with_next(0);
        return;
    }
    bool const at_once = take(first.name, manner::twice_at_once);
    int const copies = take(first.name, manner::twice)           ? 1
                       : take(first.name, manner::several_times) ? options_.copies - 1
                                                                 : 0;
    if (take(first.name, manner::late)) late_.push_back(first.delivery.message);
    if (at_once) world_.settle_twice_at_once(0);
    else world_.settle(0);
    for (int i = 0; i < copies; ++i) world_.settle_copy(first);
}

}  // namespace skald::testing::inner
