// What is settled of a partition, and what its next reader is told.
#include "kafka/progress.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using skald::kafka_detail::progress;

namespace {

// As its next reader sees it.
progress reread(progress const& p, std::int64_t ahead = 0)
{
    return {p.head(), p.text(ahead)};
}

}  // namespace

TEST_CASE("no offset is committed beyond one that is not settled")
{
    progress p{5, ""};
    for (std::int64_t i = 5; i < 10; ++i) p.hand_out(i);
    CHECK(p.head() == 5);
    p.settle(7);
    p.settle(6);
    CHECK(p.head() == 5);
    p.settle(5);
    CHECK(p.head() == 8);
    p.settle(9);
    p.settle(8);
    CHECK(p.head() == 10);
}

TEST_CASE("the next reader knows what was settled beyond, and how often the rest came")
{
    progress p{100, ""};
    for (std::int64_t i = 100; i < 110; ++i) p.hand_out(i);
    for (std::int64_t i : {101, 103, 109}) p.settle(i);
    auto const next = reread(p);
    CHECK(next.head() == 100);
    for (std::int64_t i = 100; i < 112; ++i) {
        bool const was_settled = i == 101 || i == 103 || i == 109;
        CHECK(next.is_settled(i) == was_settled);
        CHECK(next.returns(i) == (was_settled || i >= 110 ? 0 : 1));
    }
    CHECK(reread(next).returns(100) == 1);  // nothing of it was handed out, so nothing came back
    auto after = next;
    after.hand_out(100);
    CHECK(reread(after).returns(100) == 2);
}

TEST_CASE("what may be handed out before anything more is said counts as handed out")
{
    progress const p{3, ""};
    auto const next = reread(p, 2);
    CHECK(next.returns(3) == 1);
    CHECK(next.returns(4) == 1);
    CHECK(next.returns(5) == 0);
}

TEST_CASE("what was handed out and taken back does not count, and is not settled")
{
    progress p{0, "1;;1-1:4"};
    for (std::int64_t i = 0; i < 3; ++i) p.hand_out(i);
    p.take_back(1);
    p.take_back(2);
    auto const next = reread(p);
    CHECK(next.head() == 0);
    CHECK(next.returns(0) == 1);
    CHECK(next.returns(1) == 4);
    CHECK(next.returns(2) == 0);
    p.settle(0);
    CHECK(reread(p).head() == 1);
    CHECK_FALSE(reread(p).is_settled(2));
}

TEST_CASE("what is nobody's holds nothing up")
{
    progress p{0, ""};
    p.pass(0);
    CHECK(p.head() == 1);
    p.hand_out(1);
    p.pass(2);
    p.hand_out(5);  // 3 and 4 are no records
    p.settle(1);
    CHECK(p.head() == 5);
    p.settle(5);
    CHECK(p.head() == 6);
}

TEST_CASE("a gap of any length holds nothing up where nothing is out, and waits for what is")
{
    progress p{0, ""};
    p.hand_out(0);
    constexpr std::int64_t far = 10 * progress::window;
    p.pass_gap(far);
    CHECK(p.head() == 0);
    CHECK_FALSE(p.has_room(far));
    p.settle(0);
    p.pass_gap(far);
    CHECK(p.head() == far);
    CHECK(p.next() == far);
    CHECK(p.has_room(far));
    p.pass_gap(far - 1);  // which is none
    CHECK(p.next() == far);
}

TEST_CASE("what was settled of records that are gone is forgotten with them")
{
    progress settled{0, ""};
    for (std::int64_t i = 0; i < 4; ++i) settled.hand_out(i);
    for (std::int64_t i : {1, 3}) settled.settle(i);
    auto next = reread(settled);
    SUBCASE("when a later one is handed out")
    {
        next.hand_out(3 * progress::window);
    }
    SUBCASE("when it is known that a later one is the next")
    {
        next.pass_gap(3 * progress::window);
    }
    CHECK(next.head() == 3 * progress::window);
    CHECK(reread(next).head() == next.head());
    CHECK_FALSE(reread(next).is_settled(next.head()));
    CHECK(next.text().size() < 20);
}

TEST_CASE("the window ends where the text would become too long, and it never does")
{
    progress p{0, ""};
    std::mt19937 random{1};
    for (std::int64_t i = 0; p.has_room(i); ++i) p.hand_out(i);
    CHECK(p.next() == progress::window);
    for (std::int64_t i = 1; i < progress::window; ++i)
        if (random() % 2 == 0) p.settle(i);
        else if (random() % 2 == 0) p.put_back(i);
    CHECK(p.text().size() <= 4'000);
    auto const next = reread(p);
    for (std::int64_t i = 0; i < progress::window; ++i) REQUIRE(next.is_settled(i) == p.is_settled(i));
    CHECK(next.returns(0) == 1);
    p.settle(0);
    CHECK(p.has_room(progress::window));
}

TEST_CASE("a text that nobody here has written says nothing, and breaks nothing")
{
    for (auto const* const text : {"", "1", "2;AAAA;0-3:9", "x", "1;!;", "1;;5-2:1", "1;;0-99999999999:1", "1;;a-b:c",
                                   "1;;0-1:99999999999999999999", "1;;-1-1:1"}) {
        CAPTURE(text);
        progress const p{7, text};
        CHECK(p.head() == 7);
        for (std::int64_t i = 7; i < 12; ++i) {
            CHECK_FALSE(p.is_settled(i));
            CHECK(p.returns(i) == 0);
        }
    }
}

TEST_CASE("whatever the order, the head is the first that is not settled")
{
    std::mt19937 random{7};
    for (int round = 0; round < 200; ++round) {
        progress p{0, ""};
        std::set<std::int64_t> out;
        std::int64_t next = 0;
        for (int i = 0; i < 200; ++i) {
            if (out.empty() || random() % 2 == 0) {
                next += random() % 5 == 0 ? 2 : 0;  // some are missing
                if (random() % 7 == 0) p.pass(next);
                else {
                    p.hand_out(next);
                    out.insert(next);
                }
                ++next;
            }
            else {
                auto one = out.begin();
                std::advance(one, static_cast<long>(random() % out.size()));
                p.settle(*one);
                out.erase(one);
            }
            REQUIRE(p.head() == (out.empty() ? p.next() : *out.begin()));
            if (i % 20 == 0) {
                auto const again = reread(p);
                for (auto const o : out) REQUIRE_FALSE(again.is_settled(o));
                for (auto o = p.head(); o < p.next(); ++o) REQUIRE(again.is_settled(o) == p.is_settled(o));
            }
        }
    }
}
