// The picture of a saga says what the databases say.
#include "console/picture.hpp"
#include "console/words.hpp"

#include <doctest/doctest.h>

using namespace skald::console;
using namespace std::chrono_literals;
using skald::step_kind;

namespace {

skald::core::instant const start = skald::core::parse_instant("2026-01-31T12:00:00.000000Z").value();

run done(std::chrono::microseconds after, std::optional<std::int64_t> delivered = std::nullopt)
{
    run r;
    r.is = run::state::done;
    r.attempts = 1;
    r.delivered = delivered;
    r.at = start + after;
    return r;
}

run rejected(std::string const& why)
{
    auto r = done(15ms);
    r.is = run::state::rejected;
    r.error = why;
    return r;
}

run not_yet(run::state is = run::state::pending)
{
    run r;
    r.is = is;
    return r;
}

// create-order and charge-payment were undone, because arrange-shipping said no; confirm-order never ran.
saga_story turned_back()
{
    saga_story story;
    story.home = "orders";
    story.facts.created_at = start;
    story.facts.now = start + 1min;
    story.stations = {{"create-order", "orders", step_kind::compensatable, done(0ms), done(74ms)},
                      {"charge-payment", "payments", step_kind::compensatable, done(6ms, 4), done(50ms)},
                      {"arrange-shipping", "shipping", step_kind::pivot, rejected("out of stock"), std::nullopt},
                      {"confirm-order", "orders", step_kind::retriable, not_yet(run::state::never), std::nullopt}};
    for (auto const* service : {"orders", "payments", "shipping"}) story.lanes.push_back({service, true, {}, {}});
    return story;
}

std::size_t count(std::string const& text, std::string const& part)
{
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

bool has(markup const& drawn, std::string const& part)
{
    return drawn.code().find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("each service is a lane, each step a station, and each compensation one beneath")
{
    auto const drawn = draw(turned_back());
    CHECK(count(drawn.code(), "class=\"lane\"") == 3);
    CHECK(count(drawn.code(), "class=\"station ok\"") == 2);
    CHECK(count(drawn.code(), "class=\"station back undo\"") == 2);
    CHECK(count(drawn.code(), "class=\"way back\"") == 2);
    CHECK(has(drawn, "undone +74 ms"));
    CHECK(has(drawn, ">point of no return<"));
    CHECK(count(drawn.code(), "<g") == count(drawn.code(), "</g>"));
}

TEST_CASE("a station says how often it was delivered and that it was applied once")
{
    auto story = turned_back();
    CHECK(has(draw(story), "delivered 4× · applied once"));
    CHECK(has(draw(story), "1 attempt · decided once"));
    story.stations[0].forward = not_yet(run::state::retrying);
    story.stations[0].forward.attempts = 3;
    CHECK(has(draw(story), "3 attempts · no effect"));
}

TEST_CASE("what never ran is grey, and so is what has not happened yet")
{
    auto story = turned_back();
    CHECK(count(draw(story).code(), "class=\"station wait\"") == 1);
    story.stations[2].forward = not_yet();
    CHECK(count(draw(story).code(), "class=\"station wait\"") == 2);
}

TEST_CASE("a passed pivot is drawn as passed")
{
    auto story = turned_back();
    story.stations[2].forward = done(9ms);
    CHECK(has(draw(story), "point of no return, passed"));
}

TEST_CASE("a lane whose database is away says so, and so does one that was not given")
{
    auto story = turned_back();
    CHECK_FALSE(has(draw(story), "lane away"));
    story.lanes[1].why_away = "connection refused";
    CHECK(has(draw(story), "its database is away: shown as its home knows it"));
    story.lanes[1] = {"payments", false, {}, {}};
    CHECK(has(draw(story), "not given to this console"));
}

TEST_CASE("a lane says which command has arrived there, while the saga has not ended")
{
    auto story = turned_back();
    story.lanes[1].command = skald::admin::command_facts{"pause", "ada", "", start};
    CHECK(has(draw(story), ">the pause has arrived<"));
    story.lanes[1].command->action = "resume";
    CHECK_FALSE(has(draw(story), "has arrived"));
}

TEST_CASE("the message that a saga waits for is drawn where it is")
{
    auto story = turned_back();
    for (auto& one : story.stations) one.back.reset();
    story.stations[2].forward = not_yet();
    story.stations[2].forward.is_next = true;
    CHECK(has(draw(story), "its message has left every outbox: it is in the queue of shipping, or on its way"));
    story.stations[2].forward.message =
        message_place{.where = message_place::kind::outbox, .service = "payments", .since = start};
    CHECK(has(draw(story), "its message has been in the outbox of payments for 60.0 s"));
    story.stations[2].forward.message->where = message_place::kind::parked;
    CHECK(has(draw(story), "class=\"message no\""));
    CHECK(has(draw(story), "its message has been parked at payments for 60.0 s"));
}

TEST_CASE("a step that has begun says what it waits for, and there is no message for it")
{
    auto story = turned_back();
    auto& shipping = story.stations[2].forward;
    shipping = not_yet(run::state::running);
    shipping.is_next = true;
    CHECK(has(draw(story), "has begun"));
    shipping.waits_for = "a signal, or its time";
    auto const drawn = draw(story);
    CHECK(has(drawn, "waits for a signal, or its time"));
    CHECK_FALSE(has(drawn, "class=\"message"));
    CHECK(whereabouts(shipping, "shipping", story.facts.now).empty());
    shipping.is = run::state::unknown;
    CHECK(has(draw(story), "class=\"station no\""));
    CHECK_FALSE(has(draw(story), "class=\"message"));
}

TEST_CASE("names from a plan are text in the picture")
{
    auto story = turned_back();
    story.lanes[0].service = story.stations[0].service = story.stations[3].service = "<script>alert(1)</script>";
    story.stations[0].step = "</text><script>";
    CHECK_FALSE(has(draw(story), "<script"));
}

TEST_CASE("a plan of many steps keeps its size, and one of none is drawn too")
{
    auto story = turned_back();
    story.stations.assign(12, story.stations[0]);
    CHECK(has(draw(story), "viewBox=\"0 0 3230 "));
    story.stations.clear();
    CHECK(has(draw(story), "</svg>"));
}

TEST_CASE("times are said in the unit that fits")
{
    CHECK(duration(210us) == "0.2 ms");
    CHECK(duration(6ms) == "6 ms");
    CHECK(duration(1'230ms) == "1.2 s");
    CHECK(duration(5min) == "5 min");
    CHECK(duration(50h) == "2 days");
    CHECK(number(1'234'567) == "1,234,567");
    CHECK(number(12) == "12");
}

TEST_CASE("what a message changed is told member by member")
{
    auto const found =
        changes({{"a", 1}, {"b", {{"c", "x"}}}, {"gone", true}}, {{"a", 2}, {"b", {{"c", "x"}, {"d", nullptr}}}});
    REQUIRE(found.size() == 3);
    CHECK(found[0].first == "/a");
    CHECK(found[0].second == std::pair<std::string, std::string>{"1", "2"});
    CHECK(found[1].first == "/b/d");
    CHECK(found[2].second == std::pair<std::string, std::string>{"true", ""});
}
