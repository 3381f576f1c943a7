// Acks are joined into few frames, and no tag is ever sent twice or unasked.
#include <doctest/doctest.h>

#include "rabbitmq/ack_ledger.hpp"

#include <random>
#include <set>

namespace {

using skald::rabbitmq::ack_frame;
using skald::rabbitmq::ack_ledger;
using frames = std::vector<ack_frame>;

ack_ledger ledger_of(std::uint64_t count)
{
    ack_ledger ledger;
    for (std::uint64_t tag = 1; tag <= count; ++tag) ledger.delivered(tag);
    return ledger;
}

}  // namespace

TEST_CASE("nothing is sent where nothing was acked")
{
    auto ledger = ledger_of(3);
    CHECK(ledger.flush().empty());
}

TEST_CASE("the oldest deliveries are acked with one frame")
{
    auto ledger = ledger_of(5);
    for (auto tag : {3u, 1u, 2u}) ledger.ack(tag);
    CHECK(ledger.flush() == frames{{3, true}});
    CHECK(ledger.outstanding() == 2);
}

TEST_CASE("a single one is not acked as multiple")
{
    auto ledger = ledger_of(2);
    ledger.ack(1);
    CHECK(ledger.flush() == frames{{1, false}});
}

TEST_CASE("an ack behind a delivery that is still out does not ack that one")
{
    auto ledger = ledger_of(5);
    for (auto tag : {1u, 2u, 4u, 5u}) ledger.ack(tag);
    CHECK(ledger.flush() == frames{{2, true}, {4, false}, {5, false}});
    ledger.ack(3);
    CHECK(ledger.flush() == frames{{3, false}});
    CHECK(ledger.outstanding() == 0);
}

TEST_CASE("an unknown tag, or one that was acked or returned already, is never sent")
{
    auto ledger = ledger_of(2);
    ledger.ack(99);
    ledger.ack(0);
    CHECK(ledger.flush().empty());
    ledger.ack(1);
    ledger.ack(1);
    CHECK(ledger.flush().size() == 1);
    ledger.ack(1);
    CHECK(ledger.flush().empty());
}

TEST_CASE("what goes back is not acked any more, and what was acked does not go back")
{
    auto ledger = ledger_of(3);
    CHECK(ledger.requeue(2));
    CHECK_FALSE(ledger.requeue(2));
    ledger.ack(2);
    ledger.ack(1);
    CHECK_FALSE(ledger.requeue(1));
    CHECK_FALSE(ledger.requeue(99));
    CHECK(ledger.flush() == frames{{1, false}});
    CHECK(ledger.requeue(3));
    CHECK(ledger.outstanding() == 0);
}

TEST_CASE("a broker that follows the frames removes exactly what was acked")
{
    for (unsigned seed = 0; seed < 1'000; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        auto const pick = [&](std::uint64_t to) { return std::uniform_int_distribution<std::uint64_t>{0, to}(random); };
        ack_ledger ledger;
        std::set<std::uint64_t> broker;  // what the broker holds as unacked
        std::set<std::uint64_t> due;     // what it must hear of with the next flush
        std::uint64_t last = 0;
        for (int step = 0; step < 80; ++step) {
            auto const tag = pick(last + 1);
            switch (pick(4)) {
            case 0:
            case 1:
                ledger.delivered(++last);
                broker.insert(last);
                break;
            case 2:
                ledger.ack(tag);
                if (broker.contains(tag)) due.insert(tag);
                break;
            case 3:
                if (bool const goes_back = ledger.requeue(tag)) {
                    REQUIRE(goes_back == (broker.contains(tag) && !due.contains(tag)));
                    broker.erase(tag);
                }
                break;
            default: {
                std::set<std::uint64_t> settled;
                for (auto const& frame : ledger.flush()) {
                    REQUIRE(broker.contains(frame.tag));  // otherwise it would close the channel
                    auto const first = frame.multiple ? broker.begin() : broker.find(frame.tag);
                    auto const end = std::next(broker.find(frame.tag));
                    settled.insert(first, end);
                    broker.erase(first, end);
                }
                REQUIRE(settled == due);
                due.clear();
            }
            }
        }
    }
}
