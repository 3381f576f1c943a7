// What the transports keep whose messages come back one for one when a connection ends: few are out while some do.
#pragma once

#include "transport_helpers.hpp"

#include "transports/slow_start.hpp"

namespace skald::test {

TEST_CASE_TEMPLATE_DEFINE("while deliveries come back, few are out; then the whole prefetch", Fixture,
                          transport_slow_start)
{
    constexpr std::size_t few = transports::slow_start::few, all = 60;
    Fixture fixture;
    auto const service = fixture.service();
    auto subscription = fixture.transport().subscribe({service, 100});
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, all))));
    auto const first = collect(*subscription, all);
    REQUIRE(first.size() == all);
    for (auto const& one : first) CHECK(one.returns == 0);  // the step to the whole prefetch gives nothing back
    subscription.reset();

    subscription = fixture.transport().subscribe({service, 100});
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 1, "new"))));
    std::size_t came_back = 0;
    while (came_back < all) {
        auto const some = collect(*subscription, std::min(few, all - came_back));
        REQUIRE(!some.empty());
        for (auto const& one : some) CHECK(one.returns == 1);
        came_back += some.size();
        if (came_back == few) CHECK(nothing_comes(*subscription));
        ack_all(*subscription, some);
    }
    ack_all(*subscription, collect(*subscription, 1));
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, all, "after"))));
    CHECK(collect(*subscription, all).size() == all);
}

}  // namespace skald::test
