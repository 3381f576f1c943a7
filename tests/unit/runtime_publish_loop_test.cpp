// The publish loop from turn to turn: when it looks, when it waits, and what it tells.
#include "unit/publish_bench.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using ports::publish_status;

TEST_CASE("rows are taken only while the publisher is available")
{
    bench b;
    b.outbox.add(1);
    b.publisher.why_not = "connection refused";
    b.run(4);
    CHECK(b.outbox.takes == 0);
    CHECK(b.publisher.looks >= 4);
    CHECK(b.outbox.ids() == ids{1});
}

TEST_CASE("while the publisher is away the loop waits between its looks, however overdue its outbox is")
{
    bench b;
    b.outbox.add(1);
    b.publisher.why_not = "connection refused";
    b.run(4);
    REQUIRE(b.publisher.waits.size() >= 4);
    for (std::size_t look = 0; look < 4; ++look) CHECK(b.publisher.waits[look] > 0ms);
}

TEST_CASE("why the publisher is not available is told once and not once for each look")
{
    bench b;
    b.publisher.why_not = "connection refused";
    b.run(4);
    CHECK(b.log.count("relay.waiting") == 1);
}

TEST_CASE("a publisher that comes back gets what has waited, and that is told")
{
    bench b;
    b.outbox.add(1);
    b.publisher.why_not = "connection refused";
    b.publisher.on_look = [&] {
        if (b.publisher.looks == 2) b.publisher.why_not.clear();
        if (b.publisher.looks == 3) b.stop.stop();
    };
    b.relay().run();
    CHECK(b.outbox.rows.empty());
    CHECK(b.log.events() == std::vector<std::string>{"relay.waiting", "relay.available"});
}

TEST_CASE("a full batch is followed by the next one at once, until the outbox is empty")
{
    bench b;
    b.options.batch_max = 2;
    b.poll = 1h;  // to wait once would be to wait for ever
    for (int id = 1; id <= 5; ++id) b.outbox.add(id);
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 3) b.stop.stop();
        if (b.outbox.takes == 3) b.source->wake();
    };
    b.relay().run();
    CHECK(b.outbox.rows.empty());
    CHECK(b.publisher.sent.size() == 5);
}

TEST_CASE("what was committed before the relay was stopped still leaves")
{
    bench b;
    b.outbox.add(1);
    b.stop.stop();
    b.relay().run();
    CHECK(b.outbox.rows.empty());
}

TEST_CASE("a wake-up ends the wait for the next look")
{
    bench b;
    b.poll = 1h;
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 1) b.source->wake();  // before the wait begins: it must not be lost
        if (b.outbox.takes == 2) {
            b.stop.stop();
            b.source->wake();
        }
    };
    b.relay().run();
    CHECK(b.outbox.takes == 3);
}

TEST_CASE("an outbox that throws is tried again")
{
    bench b;
    b.outbox.add(1);
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 1) throw ports::fault{ports::fault_kind::connection_lost, "the server went away"};
    };
    b.run(2);
    CHECK(b.outbox.rows.empty());
    CHECK(b.log.count("relay.waiting") == 1);
}

TEST_CASE("a message of a user's that no queue is bound for is set aside, and told once for its destination")
{
    bench b;
    b.options.batch_max = 100;
    for (int id = 1; id <= 20; ++id) {
        b.outbox.add(id, 0, "trips");
        b.outbox.rows[id].is_users = true;
        b.publisher.says[id] = publish_status::returned;
    }
    b.outbox.add(21);
    b.publisher.says[21] = publish_status::returned;
    b.relay().drain();
    CHECK(b.log.count("event.unrouted") == 1);
    CHECK(b.log.count("outbox.not_sent") == 1);
    CHECK(std::ranges::count_if(b.outbox.deferred, &ports::outbox::deferral::is_unrouted) == 20);
}

TEST_CASE(
    "what can't be sent is told once for its destination, with the first one's reason, and the others are counted")
{
    for (bool const is_silent : {true, false}) {
        bench b;
        b.options.batch_max = 100;
        if (!is_silent) b.options.not_sent_silence = 0ms;
        for (int id = 1; id <= 20; ++id) b.publisher.says[id] = publish_status::returned;
        for (int id = 1; id <= 19; ++id) b.outbox.add(id, 0, "shipping");
        b.outbox.add(20, std::numeric_limits<int>::max(), "payments");
        b.relay().drain();
        CHECK(b.log.count("outbox.not_sent") == (is_silent ? 2 : 20));
        CHECK(b.outbox.deferred.size() == 20);
        auto const first = b.log.lines("outbox.not_sent").front();
        CHECK_MESSAGE(first.find("count=1 reason=\"because of ") != std::string::npos, first);
    }
}

TEST_CASE("what an exchange bars is put off for longer, told once for all its destinations, and holds up nothing")
{
    bench b;
    b.options.batch_max = 100;
    b.options.defer = {1ms, 1ms};
    b.options.defer_barred = {1h, 1h};
    for (int id = 1; id <= 20; ++id) {
        b.outbox.add(id, 0, "reply-queue-" + std::to_string(id));
        b.outbox.rows[id].is_users = true;
        b.publisher.says[id] = publish_status::barred;
    }
    b.publisher.barred_because = "403 ACCESS_REFUSED";
    b.outbox.add(21);
    b.relay().drain();
    CHECK(b.log.count("outbox.not_sent") == 1);
    CHECK(b.outbox.deferred.size() == 20);
    bool is_longer = false;
    for (auto const& one : b.outbox.deferred) {
        CHECK(one.reason == "403 ACCESS_REFUSED");
        CHECK_FALSE(one.is_unrouted);
        is_longer = is_longer || one.delay > 1min;
    }
    CHECK(is_longer);
    CHECK(!b.outbox.rows.contains(21));
    CHECK(b.outbox.rows.size() == 20);
}

TEST_CASE("a reply that comes back is no event without a queue")
{
    bench b;
    for (int id = 1; id <= 3; ++id) {
        b.outbox.add(id, 0, "reply-queue-" + std::to_string(id));
        b.outbox.rows[id].is_users = true;
        b.outbox.rows[id].message.headers.emplace_back("skald-exchange", "");
        b.publisher.says[id] = publish_status::returned;
    }
    b.relay().drain();
    CHECK(b.log.count("event.unrouted") == 0);
    CHECK(b.log.count("reply.unrouted") == 1);
    CHECK(std::ranges::count_if(b.outbox.deferred, &ports::outbox::deferral::is_unrouted) == 3);
}

TEST_CASE("one that was set aside and comes back again is not told again, and one that goes through ends the silence")
{
    bench b;
    b.outbox.add(1, 0, "trips");
    b.outbox.add(2, 0, "trips");
    b.outbox.add(3, 0, "trips");
    b.outbox.add(4, 3, "hotels");
    for (auto& [id, row] : b.outbox.rows) {
        row.is_users = true;
        b.publisher.says[id] = id == 2 ? publish_status::confirmed : publish_status::returned;
    }
    b.relay().drain();
    CHECK(b.log.count("event.unrouted") == 2);
}

TEST_CASE("messages are counted by what the broker answered, and how long they had waited")
{
    bench b;
    auto& counts = *b.options.counts;
    for (std::int64_t row = 1; row <= 5; ++row) b.outbox.add(row);
    b.outbox.rows[1].waited = 2s;
    b.publisher.says = {{2, publish_status::returned}, {3, publish_status::nacked}, {4, publish_status::unresolved}};
    b.run(3);
    auto const of = [&](publish_status status) { return counts.messages.at(static_cast<std::size_t>(status)).value(); };
    CHECK(of(publish_status::confirmed) == 2);
    CHECK(of(publish_status::returned) >= 1);
    CHECK(of(publish_status::nacked) >= 1);
    CHECK(of(publish_status::unresolved) >= 1);
    CHECK(of(publish_status::refused) == 0);
    CHECK(counts.waited.now().counts.at(11) == 1);  // up to 2.5 s
    CHECK(counts.waited.now().sum == doctest::Approx(2));
    CHECK(counts.available.value() == 1);
}

TEST_CASE("a publisher that is away shows as not connected, and a database that fails as a failure")
{
    bench b;
    auto& counts = *b.options.counts;
    counts.available.set(1);
    b.publisher.why_not = "connection refused";
    b.run(2);
    CHECK(counts.available.value() == 0);
    CHECK(counts.failures.value() == 0);

    bench other;
    other.outbox.add(1);
    other.outbox.on_take = [] { throw std::runtime_error{"the database is away"}; };
    other.run(2);
    CHECK(other.options.counts->failures.value() >= 1);
}
