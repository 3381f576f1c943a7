// The loop of the table, the relay: a row leaves on its own confirm, and on nothing else.
#include "unit/publish_bench.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using ports::publish_status;

TEST_CASE("rows that are all confirmed leave together, in the order of the outbox")
{
    bench b;
    for (int id : {3, 1, 2}) b.outbox.add(id);
    CHECK(b.relay().drain() == 3);
    CHECK(b.outbox.rows.empty());
    CHECK(b.publisher.sent == ids{1, 2, 3});
    CHECK(b.outbox.deferred.empty());
    CHECK_FALSE(b.outbox.in_transaction);
}

TEST_CASE("nothing is published where nothing is due")
{
    bench b;
    CHECK(b.relay().drain() == 0);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("no more than a batch is taken at a time")
{
    bench b;
    b.options.batch_max = 2;
    for (int id : {1, 2, 3}) b.outbox.add(id);
    std::vector<std::size_t> seen;
    b.publisher.on_publish = [&] { seen.push_back(b.publisher.sent.size()); };
    CHECK(b.relay().drain() == 3);
    CHECK(seen == std::vector<std::size_t>{0, 2});
    CHECK(b.outbox.rows.empty());
}

TEST_CASE("with two connections a full batch is followed by the next before its confirms have come")
{
    bench b;
    b.options.batch_max = 2;
    table other{b.outbox};
    b.other = &other;
    for (int id : {1, 2, 3}) b.outbox.add(id);
    std::vector<std::size_t> unanswered;
    b.publisher.on_publish = [&] { unanswered.push_back(b.publisher.receipts.size()); };
    CHECK(b.relay().drain() == 3);
    CHECK(b.publisher.sent == ids{1, 2, 3});
    CHECK(unanswered == std::vector<std::size_t>{0, 2});
    CHECK(b.outbox.rows.empty());
    CHECK_FALSE(b.outbox.in_transaction);
    CHECK_FALSE(other.in_transaction);
}

TEST_CASE("a second connection is used only where there is a backlog")
{
    bench b;
    b.options.batch_max = 2;
    table other{b.outbox};
    b.other = &other;
    b.outbox.add(1);
    b.publisher.on_publish = [&] { b.source->wake(); };
    CHECK(b.relay().drain() == 1);
    CHECK(b.outbox.takes + other.takes >= 2);
    CHECK(std::min(b.outbox.takes, other.takes) == 0);
}

TEST_CASE("where a batch breaks off, the other one that is under way is given back too, and both are sent again")
{
    bench b;
    b.options.batch_max = 1;
    table other{b.outbox};
    b.other = &other;
    for (int id : {1, 2}) b.outbox.add(id);
    int published = 0;
    b.publisher.on_publish = [&] {
        if (++published == 2) throw std::runtime_error{"out of memory"};
    };
    b.publisher.on_look = [&] {
        if (b.publisher.looks > 1) b.stop.stop();
    };
    b.relay().run();
    CHECK(b.outbox.rows.empty());
    CHECK(b.publisher.sent == ids{1, 1, 2});
    CHECK(b.outbox.releases == 1);
    CHECK(other.releases == 1);
}

TEST_CASE("a row leaves only on its own confirm")
{
    for (auto const no : {publish_status::returned, publish_status::nacked, publish_status::refused,
                          publish_status::barred, publish_status::unresolved}) {
        CAPTURE(static_cast<int>(no));
        bench b;
        for (int id : {1, 2, 3}) b.outbox.add(id);
        b.publisher.says[2] = no;
        b.relay().drain();
        CHECK(b.outbox.ids() == ids{2});
        CHECK_FALSE(b.outbox.in_transaction);
    }
}

TEST_CASE("every mixture of confirmed and unconfirmed rows loses none and keeps no confirmed one")
{
    constexpr std::array all{publish_status::confirmed, publish_status::returned, publish_status::nacked,
                             publish_status::refused,   publish_status::barred,   publish_status::unresolved};
    for (std::size_t mixture = 0; mixture < 5 * 5 * 5; ++mixture) {
        bench b;
        ids stay, deferred;
        for (std::size_t rest = mixture, id = 1; id <= 3; ++id, rest /= 5) {
            auto const row = static_cast<std::int64_t>(id);
            b.outbox.add(row);
            auto const status = b.publisher.says[row] = all[rest % 5];
            if (status != publish_status::confirmed) stay.push_back(row);
            if (status != publish_status::confirmed && status != publish_status::unresolved) deferred.push_back(row);
        }
        CAPTURE(mixture);
        b.relay().drain();
        CHECK(b.outbox.ids() == stay);
        ids seen;
        for (auto const& one : b.outbox.deferred) seen.push_back(one.id);
        std::ranges::sort(seen);
        CHECK(seen == deferred);
    }
}

TEST_CASE("a row that was returned, nacked or refused is deferred with the reason for it")
{
    for (auto const no :
         {publish_status::returned, publish_status::nacked, publish_status::refused, publish_status::barred}) {
        CAPTURE(static_cast<int>(no));
        bench b;
        b.outbox.add(1);
        b.outbox.add(2);
        b.publisher.says[2] = no;
        b.relay().drain();
        REQUIRE(b.outbox.deferred.size() == 1);
        CHECK(b.outbox.deferred[0].id == 2);
        CHECK(b.outbox.deferred[0].reason == "because of 2");
        CHECK(b.log.count("outbox.not_sent") == 1);
    }
}

TEST_CASE("a row is deferred for longer the more often it was, within its ceiling")
{
    // The longest of many delays is near the ceiling, which doubles.
    auto const longest_after = [](int attempts) {
        bench b;
        b.options.batch_max = 500;
        for (int id = 1; id <= 500; ++id) {
            b.outbox.add(id, attempts);
            b.publisher.says[id] = publish_status::nacked;
        }
        b.relay().drain();
        REQUIRE(b.outbox.deferred.size() == 500);
        auto const ceiling = b.options.defer.ceiling(attempts + 1);
        auto longest = 0ms;
        for (auto const& one : b.outbox.deferred) {
            REQUIRE(one.delay >= 0ms);
            REQUIRE(one.delay <= ceiling);
            longest = std::max(longest, one.delay);
        }
        CHECK(longest > ceiling * 9 / 10);
        return longest;
    };
    CHECK(longest_after(0) <= 1'000ms);
    CHECK(longest_after(1) > longest_after(0));
    CHECK(longest_after(4) > 14'000ms);
    CHECK(longest_after(1'000'000) > 3'000'000ms);
}

TEST_CASE("a row that is unresolved stays as it is, due at once, and is not deferred")
{
    bench b;
    b.outbox.add(1, 3);
    b.publisher.says[1] = publish_status::unresolved;
    auto relay = b.relay();
    CHECK(relay.drain() == 0);
    CHECK(b.outbox.deferred.empty());
    CHECK(b.outbox.rows.at(1).attempts == 3);

    b.publisher.says.clear();
    CHECK(relay.drain() == 1);
    CHECK(b.publisher.sent == ids{1, 1});  // twice and never zero times: the guard absorbs the second
}

TEST_CASE("what was taken is given back where publishing throws")
{
    bench b;
    b.outbox.add(1);
    b.publisher.on_publish = [&] {
        if (b.publisher.sent.empty() && b.outbox.takes == 1) throw std::runtime_error{"out of memory"};
    };
    b.run(1);
    CHECK(b.outbox.releases == 1);
}

TEST_CASE("a broker that refuses one message gets the others, and the refused one later")
{
    memory::memory_transport broker;
    broker.declare("payments");
    broker.nack_next(1);
    auto const publisher = broker.open_publisher();
    bench b;
    for (int id : {1, 2, 3}) b.outbox.add(id);
    auto relay = b.relay(*publisher);

    relay.drain();
    CHECK(broker.waiting("payments") == 2);
    CHECK(b.outbox.ids() == ids{1});
    REQUIRE(b.outbox.deferred.size() == 1);
    relay.drain();
    CHECK(broker.waiting("payments") == 3);
    CHECK(b.outbox.rows.empty());
}

TEST_CASE("a message to a service without a queue waits in the outbox")
{
    memory::memory_transport broker;
    broker.declare("payments");
    auto const publisher = broker.open_publisher();
    bench b;
    b.outbox.add(1, 0, "nobody");
    b.outbox.add(2);
    auto relay = b.relay(*publisher);

    relay.drain();
    CHECK(b.outbox.ids() == ids{1});
    REQUIRE(b.outbox.deferred.size() == 1);
    broker.declare("nobody");
    relay.drain();
    CHECK(b.outbox.rows.empty());
    CHECK(broker.waiting("nobody") == 1);
}

TEST_CASE("a message whose confirm was lost is sent again and not forgotten")
{
    memory::memory_transport broker;
    broker.declare("payments");
    broker.lose_next_confirms(1);
    auto const publisher = broker.open_publisher();
    bench b;
    b.outbox.add(1);
    auto relay = b.relay(*publisher);

    relay.drain();
    CHECK(b.outbox.ids() == ids{1});
    relay.drain();
    CHECK(b.outbox.rows.empty());
    CHECK(broker.waiting("payments") == 2);
}
