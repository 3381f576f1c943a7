// Which step a message of which version goes to, and what waits for another process.
#include "core/foreign_message.hpp"
#include "runtime/consequences.hpp"
#include "runtime/delivery_recording.hpp"
#include "runtime/deploy_wait.hpp"
#include "runtime/message_consequences.hpp"
#include "runtime/registry.hpp"
#include "runtime/task.hpp"
#include "support/recording_logger.hpp"
#include "support/temporary_file.hpp"

#include <skald/errors.hpp>
#include <skald/skald.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>

#include <sys/resource.h>

using namespace std::chrono_literals;
using namespace skald;

namespace {

struct parcel
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id)

constexpr compensatable<parcel> pack{"pack", "depot"};
constexpr compensatable<parcel> weigh{"weigh", "depot"};
constexpr pivot<parcel> load{"load", "depot"};

constexpr auto with_weigh = define("send", pack, weigh, load);
constexpr auto newest = define("send", pack, load).versioned(2);

class packing final : public compensatable_step<parcel>
{
    outcome execute(step_context&, parcel&) const override { return done(); }
    void compensate(step_context&, parcel&) const override {}
};
class loading final : public pivot_step<parcel>
{
    outcome execute(step_context&, parcel&) const override { return done(); }
};

runtime::registered_step hosted(int version, step_kind kind = step_kind::compensatable)
{
    runtime::registered_step one{std::make_shared<detail::typed_step<parcel, packing>>(packing{}), {}, kind, version};
    return one;
}

ports::delivery delivery(std::string const& step, int version, std::string const& definition = "send",
                         std::string const& service = "depot")
{
    core::envelope e;
    e.saga = {"", "k"};
    e.definition = definition;
    e.version = version;
    e.home = "home";
    e.itinerary.steps = {{step, service, step_kind::compensatable}};
    ports::delivery d;
    d.message = core::write_message(e, R"({"id":"1"})");
    return d;
}

std::string complaint(std::function<void()> const& what)
{
    try {
        what();
    }
    catch (configuration_error const& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("a message goes to the step of its own version or, where that is not hosted, of the next one")
{
    runtime::registry steps;
    steps.add("send", "pack", hosted(2));
    steps.add("send", "pack", hosted(4));
    CHECK(steps.find("send", "pack", 1)->version == 2);
    CHECK(steps.find("send", "pack", 2)->version == 2);
    CHECK(steps.find("send", "pack", 3)->version == 4);
    CHECK(steps.find("send", "pack", 4)->version == 4);
    CHECK(steps.find("send", "pack", 5)->version == 4);
    CHECK(steps.find("send", "pack")->version == 4);
    CHECK(steps.known_version("send") == 4);
    CHECK(steps.known_version("other") == 0);
    CHECK_THROWS_AS(steps.add("send", "pack", hosted(4)), configuration_error);
    CHECK(steps.find("send", "pack", 1)->counts == steps.find("send", "pack", 4)->counts);
    int all = 0, names = 0;
    steps.for_each([&all](auto const&...) { ++all; });
    steps.for_each_newest([&names](auto const&...) { ++names; });
    CHECK(all == 2);
    CHECK(names == 1);
}

TEST_CASE("what another process of the service may run waits for it: a newer version, a step, a whole definition")
{
    runtime::registry steps{15min};
    steps.add("send", "pack", hosted(2));
    auto const waits = [&steps](ports::delivery d) {
        auto const t = runtime::route(std::move(d), "depot", steps);
        return t.refused ? t.refused->for_deploy : -1ms;
    };
    CHECK(waits(delivery("pack", 1)) == -1ms);
    CHECK(waits(delivery("pack", 2)) == -1ms);
    CHECK(waits(delivery("pack", 3)) == 15min);
    CHECK(waits(delivery("weigh", 2)) == 15min);
    CHECK(waits(delivery("pack", 1, "another")) == 15min);
    CHECK(waits(delivery("pack", 2, "send", "elsewhere")) == 0ms);
    auto const newer = runtime::route(delivery("pack", 3), "depot", steps);
    CHECK(newer.refused->reason == "unknown_step");
    CHECK(newer.refused->why == "the message is of version 3 of send, and this process knows up to 2");
}

TEST_CASE("a step of another kind is never right, and waits for nobody")
{
    runtime::registry steps{15min};
    steps.add("send", "pack", hosted(2, step_kind::retriable));
    CHECK(runtime::route(delivery("pack", 2), "depot", steps).refused->for_deploy == 0ms);
}

TEST_CASE("it is looked at soon and then more and more seldom, and never after the bound")
{
    std::mt19937_64 random{1};
    core::instant const now{1h};
    CHECK(runtime::wait_for_deploy(15min, {}, now, random).value() <= 200ms);
    for (auto const waited : {0ms, 1'000ms, 20'000ms, 100'000ms, 899'999ms}) {
        auto const wait = runtime::wait_for_deploy(15min, now - waited, now, random);
        REQUIRE(wait);
        CHECK(*wait >= std::min<std::chrono::milliseconds>(15min - waited, std::clamp(waited / 8, 100ms, 5'000ms)));
        CHECK(*wait <= std::clamp(waited / 4, 200ms, 10'000ms));
        CHECK(waited + *wait <= 15min);
    }
    CHECK_FALSE(runtime::wait_for_deploy(15min, now - 15min, now, random));
    CHECK(runtime::wait_for_deploy(15min, now + 1min, now, random));  // of a clock that was set back
    CHECK_FALSE(runtime::wait_for_deploy(0ms, {}, now, random));
}

TEST_CASE(
    "what is for a handler that another process of the service may have waits for it, unless its key could change")
{
    runtime::registry const steps{15min};
    ports::delivery d;
    d.handler = "arrived";
    d.message = {"depot.on.arrived", "m-1", "arrived", "application/json", {{"color", "red"}}, "{}"};
    auto const found = [&] {
        auto const t = runtime::route(d, "depot", steps);
        return std::get<runtime::unreadable_message>(t.purpose);
    };
    CHECK(found().reason == "unknown_step");
    CHECK(found().why == "service depot has no message handler arrived");
    CHECK(found().for_deploy == 15min);
    SUBCASE("a header that comes twice")
    {
        d.message.headers.emplace_back("color", "blue");
        CHECK(found().for_deploy == 0ms);
        d.message.headers.emplace_back("skald-message-key", "k");  // it was found before
        CHECK(found().for_deploy == 15min);
    }
    SUBCASE("bytes that are no text")
    {
        d.message.headers.emplace_back("other", "\xff");
        CHECK(found().for_deploy == 0ms);
    }
    SUBCASE("one that came back too often")
    {
        d.given_up = true;
        CHECK(found().for_deploy == 0ms);
    }
}

TEST_CASE("what waits for its handler comes again as it was, and says since when")
{
    runtime::task t;
    t.delivery.handler = "arrived";
    t.delivery.message = {"depot", "", "", "application/json", {{"color", "red"}}, "{}"};
    auto const since = core::parse_instant("2026-01-31T00:00:00.000000Z").value();
    auto const first = runtime::message_unchanged(t, "depot", since, 1s);
    CHECK(first.delay == 1s);
    CHECK(first.message.destination == "depot.on.arrived");
    t.delivery.message = first.message;
    core::restore_properties(t.delivery.message);
    CHECK(t.delivery.message.id == "");
    CHECK(t.delivery.message.type == "");
    CHECK(runtime::waits_since(t) == since);
    auto const all = [](core::header_list const& headers) { return std::map(headers.begin(), headers.end()); };
    CHECK(all(runtime::message_unchanged(t, "depot", since, 1s).message.headers) == all(first.message.headers));
}

TEST_CASE("a message for a handler that is not there is parked with the key of its record, where it was tried before")
{
    runtime::task t;
    t.delivery.handler = "arrived";
    t.delivery.message = {"depot.on.arrived", "m-1", "arrived", "application/json", {}, "{}"};
    CHECK(runtime::to_park(t, "unknown_step", "why").step == "");
    t.delivery.message.headers = {{"skald-message-key", "k"}, {"skald-message-scope", "acme"}};
    auto const parked = runtime::to_park(t, "unknown_step", "why");
    CHECK(parked.step == "arrived");
    CHECK(parked.handler == "arrived");
    CHECK(parked.saga == core::saga_id{"acme", "k"});
    CHECK(runtime::to_park(t, "malformed", "why").step == "");
}

TEST_CASE("two versions of a definition are hosted side by side, with the steps of both")
{
    service depot{"depot"};
    depot.host(with_weigh, pack, packing{}).host(with_weigh, weigh, packing{}).host(with_weigh, load, loading{});
    depot.host(newest, pack, packing{}).host(newest, load, loading{});
    CHECK_NOTHROW(worker{std::move(depot), {}});
}

TEST_CASE("the same step of the same version twice is refused, and so is a version without one of its steps")
{
    service depot{"depot"};
    depot.host(newest, pack, packing{});
    CHECK(complaint([&] { depot.host(newest, pack, packing{}); }) == "step pack of send is hosted twice");
    // The older version has it, and the newer one needs it too.
    depot.host(with_weigh, pack, packing{}).host(with_weigh, weigh, packing{}).host(with_weigh, load, loading{});
    CHECK(complaint([&] {
              worker{std::move(depot), {}};
          }) ==
          "the definition send gives the service depot the step load, which it does not host with version 2: add it "
          "with host(), in this process too");
}

TEST_CASE("a retired step is hosted like any other, and must be")
{
    constexpr auto lean = newest.retired(weigh);
    service depot{"depot"};
    depot.host(lean, pack, packing{}).host(lean, load, loading{});
    service without{"depot"};
    without.host(lean, pack, packing{}).host(lean, load, loading{});
    CHECK(complaint([&] {
              worker{std::move(without), {}};
          }).find("the step weigh, which it does not host") != std::string::npos);
    depot.host(lean, weigh, packing{});
    CHECK_NOTHROW(worker{std::move(depot), {}});
}

TEST_CASE("a step that is hosted with an old version alone can't read the data of a newer form, and that is said")
{
    constexpr auto changed = define("send", pack, load).versioned(2, upcast<parcel, parcel>([](parcel const& old) {
                                                                      return parcel{old.id};
                                                                  }));
    service depot{"depot"};
    depot.host(with_weigh, pack, packing{}).host(with_weigh, weigh, packing{}).host(with_weigh, load, loading{});
    depot.host(changed, pack, packing{}).host(changed, load, loading{});
    CHECK(complaint([&] {
              worker{std::move(depot), {}};
          }).find("step weigh of send is hosted with an older version alone, and version 2 has another form") == 0);
}

TEST_CASE("a line for which the disk has no room is taken out of the recording again, and logged with the reason")
{
    struct room_for
    {
        explicit room_for(std::size_t bytes)
        {
            ::getrlimit(RLIMIT_FSIZE, &was);
            ::rlimit const small{bytes, was.rlim_max};
            ::setrlimit(RLIMIT_FSIZE, &small);
        }
        ~room_for()
        {
            ::setrlimit(RLIMIT_FSIZE, &was);
            std::signal(SIGXFSZ, handler);
        }
        ::rlimit was{};
        void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
    };
    auto const text_of = [](std::string const& file) {
        std::ifstream in{file};
        return std::string{std::istreambuf_iterator<char>{in}, {}};
    };
    runtime::registry steps;
    steps.add("send", "pack", hosted(1));
    steps.add("send", "weigh", hosted(1));
    test::temporary_file const file{""};
    test::recording_logger log;
    runtime::delivery_recording recording{file.path(), log};
    recording.note(runtime::route(delivery("pack", 1), "depot", steps));
    auto const whole = text_of(file.path());
    REQUIRE(whole.ends_with('\n'));
    {
        room_for const few{whole.size() + 10};
        recording.note(runtime::route(delivery("weigh", 1), "depot", steps));
    }
    CHECK(text_of(file.path()) == whole);
    CHECK(log.has("there was room for a part of the line only"));
    CHECK(log.count("delivery.not_recorded") == 1);
}
