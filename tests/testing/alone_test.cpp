// One step alone sees what it would see in production, and leaves what it would leave.
#include "shop.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace kit_test;
using namespace std::chrono_literals;
using skald::testing::rows;

namespace {

skald::testing::harness& alone_shop()
{
    static auto const made = make_shop();
    return *made;
}

/// Writes, publishes, changes its data, and then does not go on.
struct half_hearted final : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = 0");
        ctx.publish("mails", "receipt", {{"order", o.id}});
        o.cents = 7;
        if (o.id == "o-2") return skald::snooze(5s);
        return skald::reject("no");
    }
    void compensate(skald::step_context&, order&) const override {}
};

struct by_the_clock final : skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context& ctx, order& o) const override
    {
        o.cents = std::chrono::duration_cast<std::chrono::seconds>(ctx.now().time_since_epoch()).count();
        return skald::done();
    }
};

}  // namespace

TEST_CASE("a step alone that rejects or snoozes leaves neither rows, nor messages, nor changed data")
{
    auto alone = alone_shop().alone("payments");
    for (auto const* const id : {"o-1", "o-2"}) {
        CAPTURE(id);
        auto o = pen();
        o.id = id;
        CHECK_FALSE(alone.execute(half_hearted{}, o).is_done());
        CHECK(alone.ask("SELECT cents FROM wallet") == rows{"1000"});
        CHECK(alone.published().empty());
        CHECK(o.cents == 100);
    }
    auto o = pen();
    CHECK(alone.execute(charge_payment{}, o).is_done());
    CHECK(alone.ask("SELECT cents FROM wallet") == rows{"900"});
}

TEST_CASE("a step alone has the clock of its harness")
{
    auto const time_of = [](skald::testing::step_alone alone) {
        auto o = pen();
        alone.execute(by_the_clock{}, o);
        return o.cents;
    };
    auto const before = time_of(alone_shop().alone("payments"));
    alone_shop().advance(24h);
    auto const after = time_of(alone_shop().alone("payments"));
    alone_shop().rewind();
    CHECK(after - before >= 24 * 3600);
}

TEST_CASE("two steps run alone at the same time, each in a transaction of its own")
{
    auto one = alone_shop().alone("payments");
    auto two = alone_shop().alone("payments");
    auto first = pen(), second = pen();
    CHECK(one.execute(by_the_clock{}, first).is_done());
    CHECK(two.execute(charge_payment{}, second).is_done());
}
