// The confirm window answers for each message once, whatever order a broker chooses.
#include <doctest/doctest.h>

#include "rabbitmq/confirm_window.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace {

using skald::ports::publish_status;
using skald::rabbitmq::confirm_window;

/// A window in which the rows 0 .. count-1 are on their way, under the tags 1 .. count.
confirm_window window_of(std::int64_t count)
{
    confirm_window window;
    for (std::int64_t i = 0; i < count; ++i) window.sent(i);
    return window;
}

std::map<std::int64_t, publish_status> statuses(confirm_window& window)
{
    std::map<std::int64_t, publish_status> by_row;
    for (auto const& one : window.take_resolved()) {
        CHECK_MESSAGE(!by_row.contains(one.row), "row ", one.row, " was resolved twice");
        by_row[one.row] = one.status;
    }
    return by_row;
}

constexpr auto confirmed = publish_status::confirmed;
constexpr auto nacked = publish_status::nacked;
constexpr auto returned = publish_status::returned;

using expected = std::map<std::int64_t, publish_status>;

}  // namespace

TEST_CASE("tags count from 1, also after earlier ones were resolved")
{
    confirm_window window;
    CHECK(window.next_tag() == 1);
    window.sent(0);
    CHECK(window.next_tag() == 2);
    window.acked(1, false);
    CHECK(window.next_tag() == 2);
    window.sent(1);
    CHECK(window.next_tag() == 3);
    CHECK(window.oldest_tag() == 2);
}

TEST_CASE("an ack resolves its own message only")
{
    auto window = window_of(3);
    window.acked(2, false);
    CHECK(statuses(window) == expected{{1, confirmed}});
    CHECK(window.outstanding() == 2);
}

TEST_CASE("a multiple ack resolves everything up to its tag that is still outstanding")
{
    auto window = window_of(5);
    window.nacked(2, false);
    window.acked(4, true);
    CHECK(statuses(window) == expected{{0, confirmed}, {1, nacked}, {2, confirmed}, {3, confirmed}});
    CHECK(window.outstanding() == 1);
}

TEST_CASE("a multiple nack resolves everything up to its tag that is still outstanding")
{
    auto window = window_of(4);
    window.acked(1, false);
    window.nacked(3, true);
    CHECK(statuses(window) == expected{{0, confirmed}, {1, nacked}, {2, nacked}});
    CHECK(window.outstanding() == 1);
}

// Seen on a broker: nack 55, nack 56, then ack 54 with `multiple`.
TEST_CASE("a multiple ack below tags that were nacked before it leaves those nacked")
{
    auto window = window_of(56);
    window.nacked(55, false);
    window.nacked(56, false);
    window.acked(54, true);
    auto const seen = statuses(window);
    CHECK(seen.size() == 56);
    CHECK(seen.at(53) == confirmed);
    CHECK(seen.at(54) == nacked);
    CHECK(seen.at(55) == nacked);
    CHECK(window.outstanding() == 0);
}

TEST_CASE("multiple with tag 0 means everything so far")
{
    auto window = window_of(3);
    window.acked(0, true);
    CHECK(statuses(window).size() == 3);
}

TEST_CASE("a message that was returned is not confirmed by its ack")
{
    auto window = window_of(3);
    window.returned(2, "312 NO_ROUTE");
    CHECK(window.outstanding() == 3);
    CHECK(window.take_resolved().empty());
    window.acked(3, true);
    auto const resolved = window.take_resolved();
    REQUIRE(resolved.size() == 3);
    CHECK(resolved[1].status == returned);
    CHECK(resolved[1].reason == "312 NO_ROUTE");
    CHECK(resolved[0].status == confirmed);
    CHECK(resolved[0].reason == "");
}

TEST_CASE("a message that was returned and then nacked is nacked")
{
    auto window = window_of(1);
    window.returned(1, "312 NO_ROUTE");
    window.nacked(1, false);
    CHECK(statuses(window) == expected{{0, nacked}});
}

TEST_CASE("answers for tags that are not outstanding change nothing")
{
    auto window = window_of(2);
    window.acked(1, false);
    CHECK(statuses(window) == expected{{0, confirmed}});
    window.acked(0, false);
    window.acked(1, false);
    window.nacked(1, true);
    window.returned(1, "late");
    window.acked(3, false);
    window.returned(99, "never sent");
    CHECK(window.take_resolved().empty());
    CHECK(window.outstanding() == 1);
    CHECK(window.next_tag() == 3);
}

TEST_CASE("a multiple ack beyond the last tag does not confirm what is sent later")
{
    auto window = window_of(2);
    window.acked(1'000, true);
    CHECK(statuses(window).size() == 2);
    window.sent(2);
    CHECK(window.outstanding() == 1);
    CHECK(window.take_resolved().empty());
    window.acked(3, false);
    CHECK(statuses(window) == expected{{2, confirmed}});
}

TEST_CASE("an empty window ignores every answer")
{
    confirm_window window;
    window.acked(0, true);
    window.acked(1, true);
    window.nacked(7, false);
    CHECK(window.take_resolved().empty());
    CHECK(window.next_tag() == 1);
}

TEST_CASE("what was abandoned is unresolved, once, and what is sent afterwards is answered for")
{
    auto window = window_of(3);
    window.acked(2, false);
    window.abandon("the connection was lost");
    window.abandon("again");
    auto const resolved = window.take_resolved();
    REQUIRE(resolved.size() == 3);
    CHECK(resolved[0].row == 1);
    CHECK(resolved[0].status == confirmed);
    CHECK(resolved[1].row == 0);
    CHECK(resolved[1].status == publish_status::unresolved);
    CHECK(resolved[1].reason == "the connection was lost");
    CHECK(resolved[2].row == 2);
    CHECK(resolved[2].reason == "the connection was lost");
    CHECK(window.outstanding() == 2);
    window.sent(0);
    window.acked(3, true);
    CHECK(window.take_resolved().empty());
    CHECK(window.outstanding() == 1);
    window.returned(4, "312 NO_ROUTE");
    window.acked(4, false);
    CHECK(statuses(window) == expected{{0, returned}});
}

TEST_CASE("what was sent to a barred exchange is barred, once, and the others are not")
{
    confirm_window window;
    window.sent(0, "skald");
    window.sent(1, "");
    window.sent(2, "");
    window.sent(3, "other");
    window.acked(2, false);
    CHECK(window.exchanges() == std::set<std::string>{"", "other", "skald"});
    window.bar("", "403 ACCESS_REFUSED");
    window.abandon("the channel was closed");
    CHECK(statuses(window) == expected{{1, confirmed},
                                       {2, publish_status::barred},
                                       {0, publish_status::unresolved},
                                       {3, publish_status::unresolved}});
}

TEST_CASE("whatever a broker answers in whatever order, each message is resolved once and as it was answered first")
{
    for (unsigned seed = 0; seed < 2'000; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        auto const pick = [&](std::uint64_t from, std::uint64_t to) {
            return std::uniform_int_distribution<std::uint64_t>{from, to}(random);
        };
        confirm_window window;
        expected model;  // position -> first answer
        std::map<std::uint64_t, bool> was_returned;
        std::size_t sent = 0;
        for (int step = 0; step < 60; ++step) {
            auto const tag = pick(0, sent + 2);
            bool const multiple = pick(0, 1) == 1;
            switch (pick(0, 4)) {
            case 0:
            case 1: window.sent(sent++); break;
            case 2:
                window.returned(tag, "why");
                if (tag >= 1 && tag <= sent && !model.contains(tag - 1)) was_returned[tag] = true;
                break;
            default: {
                bool const positive = pick(0, 3) != 0;
                auto const last = multiple ? (tag == 0 ? sent : std::min<std::uint64_t>(tag, sent)) : tag;
                for (auto t = multiple ? 1 : tag; t >= 1 && t <= last && t <= sent; ++t)
                    model.emplace(t - 1, !positive ? nacked : was_returned[t] ? returned : confirmed);
                if (positive) window.acked(tag, multiple);
                else window.nacked(tag, multiple);
            }
            }
            REQUIRE(window.outstanding() == sent - model.size());
            REQUIRE(window.next_tag() == sent + 1);
        }
        REQUIRE(statuses(window) == model);
    }
}
