// The theory of sagas, over every plan of up to five steps, every position and everything that can happen there.
//
// What is expected is stated here in its own words (Garcia-Molina and Salem, 1987) and not by a second
// copy of the code: completed compensatable steps are undone once each in reverse, nothing is undone
// behind the pivot, every saga ends.
#include <doctest/doctest.h>

#include "core/transition.hpp"

#include <functional>
#include <string>
#include <vector>

using namespace skald::core;
using skald::step_kind;

namespace {

constexpr std::size_t plan_size_max = 5;

/// Every plan that a definition can have.
std::vector<itinerary> every_plan()
{
    std::vector<itinerary> plans;
    for (std::size_t undoable = 0; undoable <= plan_size_max; ++undoable)
        for (std::size_t pivots = 0; pivots <= 1; ++pivots)
            for (std::size_t behind = 0; undoable + pivots + behind <= plan_size_max; ++behind) {
                if (undoable + pivots + behind == 0) continue;
                itinerary plan;
                auto const add = [&](std::size_t count, step_kind kind) {
                    for (; count > 0; --count)
                        plan.steps.push_back({std::string(1, static_cast<char>('a' + plan.steps.size())), "svc", kind});
                };
                add(undoable, step_kind::compensatable);
                add(pivots, step_kind::pivot);
                add(behind, step_kind::retriable);
                plans.push_back(std::move(plan));
            }
    return plans;
}

/// What can happen to the step at the position.
std::vector<event> possible_at(itinerary const& at)
{
    if (at.position.direction == direction::back)
        return {event::completed, event::cancelled, event::attempts_exhausted};
    if (at.current().kind == step_kind::retriable) return {event::completed, event::attempts_exhausted};
    return {event::completed, event::rejected, event::cancelled, event::attempts_exhausted};
}

using check = std::function<void(itinerary const& at, event what, transition const& then)>;

/// Every plan, every position on it, reachable or not, and everything possible there.
void for_each_transition(check const& look)
{
    for (auto const& plan : every_plan())
        for (auto const way : {direction::forward, direction::back})
            for (std::size_t i = 0; i < plan.steps.size(); ++i) {
                if (way == direction::back && plan.steps[i].kind != step_kind::compensatable) continue;
                auto const at = plan.at({way, i});
                for (auto const what : possible_at(at)) {
                    CAPTURE(at.text());
                    CAPTURE(static_cast<int>(what));
                    look(at, what, next(at, what));
                }
            }
}

/// One saga from its first step to its end.
struct story
{
    std::vector<std::size_t> completed;  // forward, in order
    std::vector<std::size_t> undone;     // visited on the way back, in order
    bool said_no{};
    step_status last_record{};
    saga_state ended{};
    std::size_t moves{};
};

void tell(itinerary const& at, story so_far, std::function<void(itinerary const&, story const&)> const& at_end)
{
    REQUIRE(++so_far.moves <= 2 * at.steps.size());
    for (auto const what : possible_at(at)) {
        auto story = so_far;
        auto const then = next(at, what);
        if (at.position.direction == direction::back) story.undone.push_back(at.position.index);
        else if (what == event::completed) story.completed.push_back(at.position.index);
        else story.said_no = true;
        story.last_record = then.recorded;
        story.ended = then.saga;
        if (then.next) tell(at.at(*then.next), std::move(story), at_end);
        else at_end(at, story);
    }
}

/// Every story that can be told of every plan.
std::size_t for_each_story(std::function<void(itinerary const&, story const&)> const& look)
{
    std::size_t stories = 0;
    for (auto const& plan : every_plan())
        tell(plan, {}, [&](itinerary const& at, story const& told) {
            CAPTURE(at.text());
            ++stories;
            look(at, told);
        });
    return stories;
}

bool is_final(saga_state state)
{
    return state == saga_state::completed || state == saga_state::compensated || state == saga_state::stuck;
}

}  // namespace

TEST_CASE("the plans that are looked at are all those of up to five steps that keep the order of kinds")
{
    CHECK(every_plan().size() == 35);
    for (auto const& plan : every_plan()) {
        CAPTURE(plan.text());
        CHECK(parse_itinerary(plan.text()) == plan);
    }
}

TEST_CASE("a step that completed hands on to the step behind it, and the last one completes the saga")
{
    for_each_transition([](itinerary const& at, event what, transition const& then) {
        if (at.position.direction == direction::back || what != event::completed) return;
        bool const is_last = at.position.index == at.steps.size() - 1;
        CHECK(then.recorded == step_status::completed);
        CHECK(then.saga == (is_last ? saga_state::completed : saga_state::running));
        CHECK(then.next.has_value() != is_last);
        if (then.next) CHECK(*then.next == position{direction::forward, at.position.index + 1});
    });
}

TEST_CASE(
    "a no before or at the pivot turns back to the nearest step that completed, and no step is undone that said no")
{
    for_each_transition([](itinerary const& at, event what, transition const& then) {
        if (at.position.direction == direction::back || what == event::completed) return;
        if (at.current().kind == step_kind::retriable) return;
        if (at.position.index == 0) {
            CHECK_FALSE(then.next.has_value());
            CHECK(then.saga == saga_state::compensated);
        }
        else {
            CHECK(then.next == position{direction::back, at.position.index - 1});
            CHECK(then.saga == saga_state::compensating);
        }
    });
}

TEST_CASE("what is recorded of a step says what happened to it")
{
    for_each_transition([](itinerary const& at, event what, transition const& then) {
        bool const forward = at.position.direction == direction::forward;
        bool const no_way_back = !forward || at.current().kind == step_kind::retriable;
        switch (what) {
        case event::completed: CHECK(then.recorded == step_status::completed); break;
        case event::rejected: CHECK(then.recorded == step_status::rejected); break;
        case event::cancelled: CHECK(then.recorded == step_status::cancelled); break;
        case event::attempts_exhausted:
            CHECK(then.recorded == (no_way_back ? step_status::parked : step_status::rejected));
            break;
        }
    });
}

TEST_CASE(
    "only a retriable step or a compensation is parked, only when its attempts are exhausted, and the saga is stuck")
{
    for_each_transition([](itinerary const& at, event what, transition const& then) {
        bool const no_way_back = at.position.direction == direction::back || at.current().kind == step_kind::retriable;
        bool const parked = then.recorded == step_status::parked;
        CHECK(parked == (what == event::attempts_exhausted && no_way_back));
        CHECK(parked == (then.saga == saga_state::stuck));
        if (parked) CHECK_FALSE(then.next.has_value());
    });
}

TEST_CASE("after the pivot a saga never compensates")
{
    for_each_transition([](itinerary const& at, event, transition const& then) {
        if (at.position.direction == direction::back || at.current().kind != step_kind::retriable) return;
        CHECK(then.saga != saga_state::compensating);
        CHECK(then.saga != saga_state::compensated);
        if (then.next) CHECK(then.next->direction == direction::forward);
    });
}

TEST_CASE("a saga that compensates goes on compensating, one step at a time, to its beginning")
{
    for_each_transition([](itinerary const& at, event what, transition const& then) {
        if (at.position.direction == direction::forward || what == event::attempts_exhausted) return;
        if (at.position.index == 0) CHECK(then.saga == saga_state::compensated);
        else CHECK(then.next == position{direction::back, at.position.index - 1});
    });
}

TEST_CASE("the saga's state tells whether anybody gets a message, and which way it goes")
{
    for_each_transition([](itinerary const&, event, transition const& then) {
        CHECK(is_final(then.saga) == !then.next.has_value());
        if (then.next) CHECK((then.saga == saga_state::running) == (then.next->direction == direction::forward));
    });
}

TEST_CASE("wherever a saga is, each transition brings it nearer to its end")
{
    // Going forward there is the rest of the plan, and at worst the whole way back.
    auto const distance = [](itinerary const& plan, position where) {
        auto const size = plan.steps.size();
        return where.direction == direction::forward ? 2 * size - where.index : where.index;
    };
    for_each_transition([&](itinerary const& at, event, transition const& then) {
        if (then.next) CHECK(distance(at, *then.next) < distance(at, at.position));
    });
}

TEST_CASE("wherever a saga goes, its itinerary can be read by the service that gets it")
{
    for_each_transition([](itinerary const& at, event, transition const& then) {
        if (!then.next) return;
        auto const there = at.at(*then.next);
        CHECK(parse_itinerary(there.text()) == there);
    });
}

TEST_CASE("a saga that completes has completed every step once and undone none")
{
    auto const stories = for_each_story([](itinerary const& at, story const& told) {
        if (told.ended != saga_state::completed) return;
        CHECK(told.undone.empty());
        CHECK_FALSE(told.said_no);
        REQUIRE(told.completed.size() == at.steps.size());
        for (std::size_t i = 0; i < told.completed.size(); ++i) CHECK(told.completed[i] == i);
    });
    CHECK(stories > 100);
}

TEST_CASE("a saga that is compensated has undone every step that completed, once, in reverse, and nothing else")
{
    for_each_story([](itinerary const&, story const& told) {
        if (told.ended != saga_state::compensated) return;
        CHECK(told.said_no);
        CHECK(told.undone == std::vector<std::size_t>{told.completed.rbegin(), told.completed.rend()});
    });
}

TEST_CASE("a saga whose pivot completed, or that reached a retriable step, is never compensated")
{
    for_each_story([](itinerary const& at, story const& told) {
        for (auto const index : told.completed)
            if (at.steps[index].kind != step_kind::compensatable) CHECK(told.undone.empty());
    });
}

TEST_CASE("a saga that is stuck has its last step parked, and has undone what it undid in reverse without a gap")
{
    for_each_story([](itinerary const& at, story const& told) {
        CHECK((told.ended == saga_state::stuck) == (told.last_record == step_status::parked));
        if (told.ended != saga_state::stuck) return;
        std::vector<std::size_t> const reverse{told.completed.rbegin(), told.completed.rend()};
        REQUIRE(told.undone.size() <= reverse.size());
        CHECK(std::equal(told.undone.begin(), told.undone.end(), reverse.begin()));
        if (told.undone.empty()) CHECK(at.current().kind == step_kind::retriable);
    });
}

TEST_CASE("statuses and states have the names that the database and the messages use")
{
    CHECK(name_of(step_status::completed) == "completed");
    CHECK(name_of(step_status::started) == "started");
    CHECK(name_of(step_status::retrying) == "retrying");
    CHECK(name_of(step_status::rejected) == "rejected");
    CHECK(name_of(step_status::parked) == "parked");
    CHECK(name_of(step_status::cancelled) == "cancelled");
    CHECK(name_of(saga_state::running) == "running");
    CHECK(name_of(saga_state::compensating) == "compensating");
    CHECK(name_of(saga_state::completed) == "completed");
    CHECK(name_of(saga_state::compensated) == "compensated");
    CHECK(name_of(saga_state::stuck) == "stuck");
}
