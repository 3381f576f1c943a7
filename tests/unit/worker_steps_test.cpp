// Which steps a worker must host: its queue brings the messages of all that its definitions give its service.
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
    config depot;
    depot.service = "depot";
    worker w{depot};
    w.host(move_house, pack, no_step{});
    auto const said = test::complaint_about([&] { w.run(); });
    CHECK(contains(said, "move-house"));
    CHECK(contains(said, "weigh"));
    CHECK_FALSE(contains(said, "carry"));
}
