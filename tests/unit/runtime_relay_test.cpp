// The relay between an outbox and a publisher that do as the test says: a row leaves on its own confirm, and on nothing
// else.
#include <doctest/doctest.h>

#include "memory/memory_transport.hpp"
#include "runtime/relay.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using namespace skald;
using namespace std::chrono_literals;
using ports::publish_status;

namespace {

core::message message_to(std::string destination, std::string id)
{
    core::message m;
    m.destination = std::move(destination);
    m.type = "charge";
    m.id = std::move(id);
    return m;
}

/// A table in memory. As in PostgreSQL's, what is taken is in one open transaction until it is settled or released.
class table final : public ports::outbox
{
public:
    std::map<std::int64_t, row> rows;
    std::vector<put_off> put_offs;
    int takes{};
    int releases{};
    bool in_transaction{};
    std::function<void()> on_take = [] {};

    void add(std::int64_t id, int attempts = 0, std::string destination = "payments")
    {
        rows[id] = {id, attempts, message_to(std::move(destination), "order-" + std::to_string(id) + ":charge")};
    }

    std::vector<std::int64_t> ids() const
    {
        std::vector<std::int64_t> left;
        for (auto const& [id, waiting] : rows) left.push_back(id);
        return left;
    }

    std::vector<row> take(std::size_t max) override
    {
        ++takes;
        on_take();
        std::vector<row> due;
        for (auto const& [id, waiting] : rows) {
            if (due.size() == max) break;
            due.push_back(waiting);
            taken_.push_back(id);
        }
        in_transaction = !due.empty();
        return due;
    }

    void settle_all() override
    {
        for (auto const id : std::exchange(taken_, {})) rows.erase(id);
        in_transaction = false;
    }

    void settle(std::vector<std::int64_t> const& confirmed, std::vector<put_off> const& failed) override
    {
        release();
        for (auto const id : confirmed) rows.erase(id);
        put_offs.insert(put_offs.end(), failed.begin(), failed.end());
    }

    void release() noexcept override
    {
        ++releases;
        taken_.clear();
        in_transaction = false;
    }

private:
    std::vector<std::int64_t> taken_;
};

/// Says of each message what the test wants; `confirmed` where it says nothing.
class scripted_publisher final : public ports::publisher
{
public:
    std::map<std::int64_t, publish_status> says;
    std::vector<std::int64_t> sent;
    std::string why_not;  // empty: available
    int tended{};
    std::function<void()> on_tend = [] {};
    std::function<void()> on_publish = [] {};

    bool available() override { return why_not.empty(); }
    std::string trouble() const override { return why_not; }

    void tend() override
    {
        ++tended;
        on_tend();
    }

    std::vector<ports::receipt> publish(std::span<ports::outgoing const> messages, std::chrono::milliseconds) override
    {
        on_publish();
        std::vector<ports::receipt> receipts;
        for (auto const& m : messages) {
            sent.push_back(m.row);
            auto const it = says.find(m.row);
            auto const status = it == says.end() ? publish_status::confirmed : it->second;
            receipts.push_back({m.row, status, status == publish_status::confirmed ? "" : "because of " + std::to_string(m.row)});
        }
        return receipts;
    }
};

class event_log final : public core::logger
{
public:
    std::vector<std::string> events;

    void write(core::severity, std::string_view event, std::initializer_list<core::log_field>) noexcept override
    {
        events.emplace_back(event);
    }

    auto count(std::string_view event) const { return std::ranges::count(events, event); }
};

/// A relay with everything around it.
struct bench
{
    runtime::relay_options options{.batch_max = 10, .poll = 1ms, .put_off = {1'000ms, 3'600'000ms}};
    table outbox;
    scripted_publisher publisher;
    runtime::wakeup wake;
    runtime::stop_flag stop;
    event_log log;

    runtime::relay relay(ports::publisher& to) { return {options, outbox, to, wake, stop, log, std::mt19937_64{11}}; }
    runtime::relay relay() { return relay(publisher); }

    /// Runs until it has looked `times` times at its publisher, and the once more that every relay does at its end.
    void run(int times)
    {
        int looked = 0;
        publisher.on_tend = [&, times] {
            if (++looked == times) stop.stop();
        };
        relay().run();
    }
};

using ids = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("rows that are all confirmed leave together, in the order of the outbox")
{
    bench b;
    for (int id : {3, 1, 2}) b.outbox.add(id);
    CHECK(b.relay().move_batch() == 3);
    CHECK(b.outbox.rows.empty());
    CHECK(b.publisher.sent == ids{1, 2, 3});
    CHECK(b.outbox.put_offs.empty());
    CHECK_FALSE(b.outbox.in_transaction);
}

TEST_CASE("nothing is published where nothing is due")
{
    bench b;
    CHECK(b.relay().move_batch() == 0);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("no more than a batch is taken at a time")
{
    bench b;
    b.options.batch_max = 2;
    for (int id : {1, 2, 3}) b.outbox.add(id);
    CHECK(b.relay().move_batch() == 2);
    CHECK(b.outbox.ids() == ids{3});
}

TEST_CASE("a row leaves only on its own confirm")
{
    for (auto const no : {publish_status::returned, publish_status::nacked, publish_status::refused, publish_status::unresolved}) {
        CAPTURE(static_cast<int>(no));
        bench b;
        for (int id : {1, 2, 3}) b.outbox.add(id);
        b.publisher.says[2] = no;
        b.relay().move_batch();
        CHECK(b.outbox.ids() == ids{2});
        CHECK_FALSE(b.outbox.in_transaction);
    }
}

TEST_CASE("every mixture of confirmed and unconfirmed rows loses none and keeps no confirmed one")
{
    constexpr std::array all{publish_status::confirmed, publish_status::returned, publish_status::nacked,
                             publish_status::refused, publish_status::unresolved};
    for (std::size_t mixture = 0; mixture < 5 * 5 * 5; ++mixture) {
        bench b;
        ids stay, put_off;
        for (std::size_t rest = mixture, id = 1; id <= 3; ++id, rest /= 5) {
            auto const row = static_cast<std::int64_t>(id);
            b.outbox.add(row);
            auto const status = b.publisher.says[row] = all[rest % 5];
            if (status != publish_status::confirmed) stay.push_back(row);
            if (status != publish_status::confirmed && status != publish_status::unresolved) put_off.push_back(row);
        }
        CAPTURE(mixture);
        b.relay().move_batch();
        CHECK(b.outbox.ids() == stay);
        ids seen;
        for (auto const& one : b.outbox.put_offs) seen.push_back(one.id);
        CHECK(seen == put_off);
    }
}

TEST_CASE("a row that was returned, nacked or refused is put off with the reason for it")
{
    for (auto const no : {publish_status::returned, publish_status::nacked, publish_status::refused}) {
        CAPTURE(static_cast<int>(no));
        bench b;
        b.outbox.add(1);
        b.outbox.add(2);
        b.publisher.says[2] = no;
        b.relay().move_batch();
        REQUIRE(b.outbox.put_offs.size() == 1);
        CHECK(b.outbox.put_offs[0].id == 2);
        CHECK(b.outbox.put_offs[0].reason == "because of 2");
        CHECK(b.log.count("outbox.not_sent") == 1);
    }
}

TEST_CASE("a row is put off for longer the more often it was, within its ceiling")
{
    // The longest of many delays is near the ceiling, which doubles.
    auto const longest_after = [](int attempts) {
        bench b;
        b.options.batch_max = 500;
        for (int id = 1; id <= 500; ++id) {
            b.outbox.add(id, attempts);
            b.publisher.says[id] = publish_status::nacked;
        }
        b.relay().move_batch();
        REQUIRE(b.outbox.put_offs.size() == 500);
        auto const ceiling = b.options.put_off.ceiling(attempts + 1);
        auto longest = 0ms;
        for (auto const& one : b.outbox.put_offs) {
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

TEST_CASE("a row that is unresolved stays as it is, due at once, and is not put off")
{
    bench b;
    b.outbox.add(1, 3);
    b.publisher.says[1] = publish_status::unresolved;
    auto relay = b.relay();
    CHECK(relay.move_batch() == 0);
    CHECK(b.outbox.put_offs.empty());
    CHECK(b.outbox.rows.at(1).attempts == 3);

    b.publisher.says.clear();
    CHECK(relay.move_batch() == 1);
    CHECK(b.publisher.sent == ids{1, 1});  // twice and never zero times: the guard absorbs the second
}

TEST_CASE("rows are taken only while the publisher is available")
{
    bench b;
    b.outbox.add(1);
    b.publisher.why_not = "connection refused";
    b.run(4);
    CHECK(b.outbox.takes == 0);
    CHECK(b.publisher.tended >= 4);
    CHECK(b.outbox.ids() == ids{1});
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
    int looked = 0;
    b.publisher.on_tend = [&] {
        ++looked;
        if (looked == 2) b.publisher.why_not.clear();
        if (looked == 3) b.stop.stop();
    };
    b.relay().run();
    CHECK(b.outbox.rows.empty());
    CHECK(b.log.events == std::vector<std::string>{"relay.waiting", "relay.available"});
}

TEST_CASE("a full batch is followed by the next one at once, until the outbox is empty")
{
    bench b;
    b.options.batch_max = 2;
    b.options.poll = 1h;  // to wait once would be to wait for ever
    for (int id = 1; id <= 5; ++id) b.outbox.add(id);
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 3) b.stop.stop();
        if (b.outbox.takes == 3) b.wake.notify();
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
    b.options.poll = 1h;
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 1) b.wake.notify();  // before the wait begins: it must not be lost
        if (b.outbox.takes == 2) {
            b.stop.stop();
            b.wake.notify();
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

// Taking deletes, within a transaction: were it left open, the next batch's commit would make the rows go unsent.
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

    relay.move_batch();
    CHECK(broker.waiting("payments") == 2);
    CHECK(b.outbox.ids() == ids{1});
    relay.move_batch();
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

    relay.move_batch();
    CHECK(b.outbox.ids() == ids{1});
    REQUIRE(b.outbox.put_offs.size() == 1);
    broker.declare("nobody");
    relay.move_batch();
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

    relay.move_batch();
    CHECK(b.outbox.ids() == ids{1});
    relay.move_batch();
    CHECK(b.outbox.rows.empty());
    CHECK(broker.waiting("payments") == 2);
}
