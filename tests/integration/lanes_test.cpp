// Lanes as a worker has them, over a real database: how many run one step at a time.
#include "support/busy_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <latch>

using namespace std::chrono_literals;
using skald::test::busy_depot;
using skald::test::note;
using skald::test::parcel;
using skald::testing::wait_until;

namespace {

/// A script that counts how many run at a time, and holds each until the latch is open.
struct held
{
    std::atomic<int> inside{};
    std::atomic<int> most{};
    std::latch may_end{1};

    skald::test::script script()
    {
        return [this](skald::step_context& ctx, parcel& p) -> skald::outcome {
            most = std::max(most.load(), ++inside);
            may_end.wait();
            note(ctx, "pack:" + p.id);
            --inside;
            return skald::done();
        };
    }
};

}  // namespace

TEST_CASE("deliveries of one step run on several lanes at a time")
{
    held pack;
    busy_depot d;
    d.at("depot").options_of_steps.batch = 1;
    d.pack = pack.script();
    d.start_all(1);
    d.at("depot").relay_due();
    skald::test::running_lanes const lanes{d.at("depot"), 2};
    REQUIRE(wait_until([&] { return pack.inside == 1; }));
    d.start(skald::test::send, parcel{"p2", 2}, "p2");
    d.at("depot").relay_due();
    CHECK(wait_until([&] { return pack.inside == 2; }));
    pack.may_end.count_down();
    CHECK(wait_until([&] { return d.counts() == "pack 2"; }));
}

TEST_CASE("a step that may have one lane runs on one, and the other lane goes on with other steps")
{
    held pack;
    busy_depot d;
    auto& depot = d.at("depot");
    depot.options_of_steps.concurrency = 1;
    d.pack = [&, held = pack.script(), free = d.pack](skald::step_context& ctx, parcel& p) {
        return p.id == "p1" ? free(ctx, p) : held(ctx, p);
    };
    d.start_all(5);
    depot.relay_due();
    REQUIRE(depot.process_one());  // p1 is packed, and can be weighed

    skald::test::running_lanes const lanes{depot, 2, 2};
    REQUIRE(wait_until([&] { return d.transport().waiting("depot") == 0; }));  // each has taken two to pack
    depot.relay_due();
    CHECK(wait_until([&] { return d.counts() == "pack 1, weigh 1"; }));
    CHECK(wait_until([&] { return pack.inside == 1; }));
    pack.may_end.count_down();
    CHECK(wait_until([&] { return d.counts() == "pack 5, weigh 1"; }));
    CHECK(pack.most == 1);
}

TEST_CASE("a step that does not return keeps its own delivery, and those of its batch are done elsewhere meanwhile")
{
    std::atomic<int> hanging{};
    std::latch may_end{1};
    busy_depot d;
    d.pack = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, "pack:" + p.id);
        if (p.id == "p3" && ++hanging == 1) {
            ctx.sql("SET LOCAL idle_in_transaction_session_timeout = 100");
            may_end.wait();
        }
        return skald::done();
    };
    d.start_all(8);
    d.at("depot").relay_due();
    {
        skald::test::running_lanes const lanes{d.at("depot"), 2, 8, 300ms};
        CHECK(wait_until([&] {
            d.at("depot").relay_due();
            return d.sagas() == "completed 7, running 1";
        }));
        CHECK(hanging == 1);
        may_end.count_down();
        CHECK(wait_until([&] {
            d.at("depot").relay_due();
            return d.sagas() == "completed 8";
        }));
    }
    CHECK(d.once_each());
}
