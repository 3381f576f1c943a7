// The itinerary as text: stable, read strictly, and never a plan that breaks the theory.
#include <doctest/doctest.h>

#include "core/itinerary.hpp"
#include "unit/seeded.hpp"

#include <array>
#include <string>

using namespace skald::core;
using skald::step_kind;
using namespace std::string_literals;

namespace {

itinerary plan_of(std::size_t size)
{
    itinerary plan;
    for (std::size_t i = 0; i < size; ++i)
        plan.steps.push_back({"s" + std::to_string(i), "svc", step_kind::compensatable});
    return plan;
}

}  // namespace

TEST_CASE("the text of an itinerary is the direction, the position, and every step with its service and kind")
{
    constexpr std::array<skald::planned_step, 3> plan{{{"create-order", "orders", step_kind::compensatable},
                                                       {"charge-payment", "payments", step_kind::pivot},
                                                       {"arrange-shipping", "shipping", step_kind::retriable}}};
    auto const made = make_itinerary(plan);
    CHECK(made.text() == "forward 1/3 create-order@orders=compensatable charge-payment@payments=pivot "
                         "arrange-shipping@shipping=retriable");
    CHECK(made.at({direction::back, 0}).text().starts_with("back 1/3 create-order@orders=compensatable "));
    CHECK(made.at({direction::forward, 2}).text().starts_with("forward 3/3 "));
}

TEST_CASE("only a retriable step is past the pivot")
{
    auto const plan = parse_itinerary("forward 1/3 a@x=compensatable b@x=pivot c@x=retriable");
    REQUIRE(plan.has_value());
    CHECK_FALSE(plan->past_pivot());
    CHECK_FALSE(plan->at({direction::forward, 1}).past_pivot());
    CHECK(plan->at({direction::forward, 2}).past_pivot());
}

TEST_CASE("reading what text() wrote gives the same itinerary")
{
    skald::test::seeded random{3};
    for (int i = 0; i < 3'000; ++i) {
        itinerary written;
        auto const undoable = random.number(0, 8), behind = random.number(0, 8);
        auto const add = [&](step_kind kind) {
            auto const number = std::to_string(written.steps.size());
            written.steps.push_back({random.name().substr(0, 40) + number, random.name(), kind});
        };
        for (std::size_t n = 0; n < undoable; ++n) add(step_kind::compensatable);
        if (random.coin() || undoable + behind == 0) add(step_kind::pivot);
        for (std::size_t n = 0; n < behind; ++n) add(step_kind::retriable);
        written.position = {direction::forward, random.number(0, written.steps.size() - 1)};
        if (written.current().kind == step_kind::compensatable && random.coin())
            written.position.direction = direction::back;

        CAPTURE(written.text());
        auto const read = parse_itinerary(written.text());
        REQUIRE(read.has_value());
        REQUIRE(*read == written);
    }
}

TEST_CASE("a malformed itinerary is refused")
{
    REQUIRE(parse_itinerary("forward 1/2 a@x=compensatable b@y=pivot").has_value());
    for (auto const& bad : {
             ""s,
             " "s,
             "forward"s,
             "forward "s,
             "forward 1/1"s,
             "forward 1/1 "s,
             "forward 0/0"s,
             "forward 1/0"s,
             // direction
             "Forward 1/1 a@x=pivot"s,
             "sideways 1/1 a@x=pivot"s,
             " forward 1/1 a@x=pivot"s,
             "1/1 a@x=pivot"s,
             "forward  1/1 a@x=pivot"s,
             "forward\t1/1 a@x=pivot"s,
             "forward\0 1/1 a@x=pivot"s,
             // position
             "forward 0/1 a@x=pivot"s,
             "forward 2/1 a@x=pivot"s,
             "forward -1/1 a@x=pivot"s,
             "forward +1/1 a@x=pivot"s,
             "forward 1 a@x=pivot"s,
             "forward /1 a@x=pivot"s,
             "forward 1/ a@x=pivot"s,
             "forward 1/1/1 a@x=pivot"s,
             "forward 1.0/1 a@x=pivot"s,
             "forward x/1 a@x=pivot"s,
             "forward 1/x a@x=pivot"s,
             "forward 0x1/1 a@x=pivot"s,
             "forward 18446744073709551617/18446744073709551617 a@x=pivot"s,
             // number of steps
             "forward 1/2 a@x=pivot"s,
             "forward 1/1 a@x=compensatable b@y=pivot"s,
             // a step
             "forward 1/1 a"s,
             "forward 1/1 a@x"s,
             "forward 1/1 a=pivot"s,
             "forward 1/1 @x=pivot"s,
             "forward 1/1 a@=pivot"s,
             "forward 1/1 a@x="s,
             "forward 1/1 a@x=Pivot"s,
             "forward 1/1 a@x=pivots"s,
             "forward 1/1 a@x=pivot=pivot"s,
             "forward 1/1 a@x@y=pivot"s,
             "forward 1/1 A@x=pivot"s,
             "forward 1/1 a@X=pivot"s,
             "forward 1/1 a:b@x=pivot"s,
             "forward 1/1 a.compensate@x=compensatable"s,
             "forward 1/1 a@x=pivot\n"s,
             "forward 1/1 a@x=pivot\0"s,
             "forward 1/1 " + std::string(49, 'a') + "@x=pivot",
             // separators
             "forward 1/2 a@x=compensatable  b@y=pivot"s,
             "forward 1/2 a@x=compensatable,b@y=pivot"s,
             "forward 1/1  a@x=pivot"s,
             "forward 1/1 a@x=pivot  "s,
             "forward 1/1 a@x=pivot b"s,
         }) {
        CAPTURE(bad);
        CHECK_FALSE(parse_itinerary(bad).has_value());
    }
}

TEST_CASE("an itinerary has one text: what is read is written as it was")
{
    for (auto const& other : {"forward 1/1 a@x=pivot "s, "forward 01/1 a@x=pivot"s, "forward 1/01 a@x=pivot"s}) {
        CAPTURE(other);
        CHECK_FALSE(parse_itinerary(other).has_value());
    }
}

// Its two steps would share one guard's record, and the second would pass for done (traps S10).
TEST_CASE("an itinerary that has a name twice is refused")
{
    CHECK_FALSE(parse_itinerary("forward 1/2 a@x=compensatable a@y=compensatable").has_value());
    CHECK_FALSE(parse_itinerary("forward 1/3 a@x=compensatable b@x=pivot a@x=retriable").has_value());
    CHECK(parse_itinerary("forward 1/2 a@x=compensatable b@x=compensatable").has_value());
}

TEST_CASE("an itinerary whose kinds are out of order is refused")
{
    for (auto const& bad :
         {"forward 1/2 a@x=pivot b@x=compensatable"s, "forward 1/2 a@x=retriable b@x=pivot"s,
          "forward 1/2 a@x=retriable b@x=compensatable"s, "forward 1/2 a@x=pivot b@x=pivot"s,
          "forward 1/3 a@x=compensatable b@x=retriable c@x=pivot"s, "forward 1/3 a@x=pivot b@x=retriable c@x=pivot"s}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_itinerary(bad).has_value());
    }
    for (auto const& good : {"forward 1/1 a@x=retriable"s, "forward 1/2 a@x=compensatable b@x=retriable"s,
                             "forward 1/2 a@x=pivot b@x=retriable"s, "forward 1/2 a@x=retriable b@x=retriable"s}) {
        CAPTURE(good);
        CHECK(parse_itinerary(good).has_value());
    }
}

TEST_CASE("no compensation is sent to a step that can't be undone")
{
    CHECK(parse_itinerary("back 1/3 a@x=compensatable b@x=pivot c@x=retriable").has_value());
    CHECK_FALSE(parse_itinerary("back 2/3 a@x=compensatable b@x=pivot c@x=retriable").has_value());
    CHECK_FALSE(parse_itinerary("back 3/3 a@x=compensatable b@x=pivot c@x=retriable").has_value());
}

TEST_CASE("an itinerary has at most 64 steps")
{
    CHECK(parse_itinerary(plan_of(steps_max).text()) == plan_of(steps_max));
    CHECK_FALSE(parse_itinerary(plan_of(steps_max + 1).text()).has_value());
}

TEST_CASE("an itinerary of any bytes is refused or read, and no more than its count of steps is looked at")
{
    skald::test::seeded random{4};
    auto const valid = plan_of(3).text();
    for (int i = 0; i < 20'000; ++i) {
        auto text = valid;
        for (auto n = random.number(1, 3); n > 0; --n) text[random.number(0, text.size() - 1)] = random.bytes(1, 1)[0];
        CAPTURE(text);
        if (auto const read = parse_itinerary(text)) REQUIRE(read->text() == text);
    }
    CHECK_FALSE(parse_itinerary("forward 1/1 a@x=pivot" + std::string(1'000'000, ' ')).has_value());
}
