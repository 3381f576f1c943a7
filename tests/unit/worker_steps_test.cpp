// What a service may be given: errors come where the mistake is, before anything runs.
#include "support/complaint.hpp"

#include <skald/skald.hpp>
#include <skald/worker.hpp>

#include <doctest/doctest.h>

using namespace skald;
using test::contains;

namespace {

struct parcel
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id)

struct no_step final : compensatable_step<parcel>
{
    outcome execute(step_context&, parcel&) const override { return done(); }
    void compensate(step_context&, parcel&) const override {}
};

constexpr compensatable<parcel> pack{"pack", "depot"}, weigh{"weigh", "depot"}, carry{"carry", "carrier"};
constexpr auto move_house = define("move-house", pack, weigh, carry);

}  // namespace

TEST_CASE("a worker that hosts one step of its service and not the other does not start, and says which")
{
    service depot{"depot"};
    depot.host(move_house, pack, no_step{});
    auto const said = test::complaint_about([&] { worker{std::move(depot), config{}}; });
    CHECK(contains(said, "move-house"));
    CHECK(contains(said, "weigh"));
    CHECK_FALSE(contains(said, "carry"));
}

TEST_CASE("a service without a proper name is refused")
{
    for (std::string const name : {"", "Payments", "pay ments", "pay.ments", "1payments", "payments:1"}) {
        CAPTURE(name);
        CHECK(contains(test::complaint_about([&] { service{name}; }), "'" + name + "' is not a service's name"));
    }
}

TEST_CASE("options that a step can't have are refused, and what is hosted twice")
{
    using namespace std::chrono_literals;
    service depot{"depot"};
    auto const complaint = [&](step_options const& options) {
        return test::complaint_about([&] { depot.host(move_house, pack, no_step{}, options); });
    };
    CHECK(contains(complaint({.retry = {.attempts_max = 0}}), "step pack: a retry policy has at least one attempt"));
    CHECK(contains(complaint({.retry = {.first = 2s, .longest = 1s}}), "its longest wait is not below its first"));
    CHECK(contains(complaint({.retry = {.deadline = -1ms}}), "a deadline is not below 0"));
    CHECK(contains(complaint({.batch = 0}), "step_options{.batch} is at least 1"));
    CHECK(contains(complaint({.prefetch = 10'001}), "at most 10000 deliveries"));
    CHECK(complaint({}).empty());
    CHECK(contains(complaint({}), "step pack of move-house is hosted twice"));
    CHECK(contains(test::complaint_about([&] { depot.host(move_house, carry, no_step{}); }),
                   "step carry belongs to the service carrier, and this is depot"));
}

TEST_CASE("a snooze of no time, or of less, is one of a second")
{
    using namespace std::chrono_literals;
    CHECK(snooze(1ms).wait == 1ms);
    for (auto const wait : {0ms, -1ms, std::chrono::milliseconds::min()}) CHECK(snooze(wait).wait == 1s);
}
