// What goes from memory: marked before COMMIT, sent after it, deleted once confirmed, and left to come due wherever
// that can't be.
#include "unit/publish_bench.hpp"

#include "runtime/memory_source.hpp"

#include <doctest/doctest.h>

#include <optional>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using ports::publish_status;

namespace {

/// Numbers rows from 100 on.
class numbering_store final : public ports::store
{
public:
    std::function<void(ports::changes const&)> on_commit = [](auto const&) {};
    bool has_none{};
    std::int64_t next{100};

    std::vector<std::int64_t> new_rows(std::size_t count) override
    {
        std::vector<std::int64_t> rows;
        while (!has_none && rows.size() < count) rows.push_back(next++);
        return rows;
    }

    void connect() override {}
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const>, ports::claim_options const&) override
    {
        return {};
    }
    detail::unit_of_work& unit() override { throw std::logic_error{"no transaction"}; }
    core::instant claimed_at() const override { return {}; }
    void finish_step() override {}
    std::string read_body(core::body_reference const&) override { return {}; }
    void commit(ports::changes const& what) override { on_commit(what); }
    void write(ports::changes const&) override {}
    ports::transaction_state state() noexcept override { return ports::transaction_state::open; }
    void rollback() noexcept override {}
    ports::request_claim begin_request(ports::claim_item const&, std::optional<std::chrono::milliseconds>) override
    {
        return {};
    }
    void savepoint() override {}
    void undo_to_savepoint() override {}
    ports::fault classify_current() override { return {ports::fault_kind::broken, ""}; }
};

/// The loop of memory, beside the table that it writes to. What it leaves to others wakes the table's source.
struct memory_bench
{
    runtime::memory_options options{.grace_period = 1h, .delete_after = 0ms};
    numbering_store store;
    table rows;
    scripted_publisher publisher;
    runtime::stop_flag stop;
    event_log log;
    bench relay;
    std::optional<runtime::publish_loop> others;
    std::optional<runtime::memory_source> made;

    runtime::memory_source& out()
    {
        if (made) return *made;
        relay.poll = 1h;
        others.emplace(relay.relay());
        relay.source->poll(1);  // its first look needs no wake-up
        relay.outbox.takes = 0;
        return made.emplace(options, &rows, &*relay.source);
    }

    /// Whether the table's source was told that something may be due.
    bool is_left_to_the_table()
    {
        relay.source->poll(1);
        return std::exchange(relay.outbox.takes, 0) > 0;
    }

    static ports::changes changes(std::vector<int> const& numbers, std::chrono::milliseconds delay = {})
    {
        ports::changes made;
        for (auto const n : numbers)
            made.messages.push_back(
                {message_to("payments", "order-" + std::to_string(n) + ":charge"), "", "saga", "order", delay});
        return made;
    }

    /// A transaction that commits. Returns what the store was given.
    ports::changes commit(std::vector<int> const& numbers, std::chrono::milliseconds delay = {})
    {
        return commit(changes(numbers, delay));
    }

    ports::changes commit(ports::changes what)
    {
        ports::changes as_written;
        store.on_commit = [&](auto const& written) {
            for (auto const& one : written.messages)
                if (one.row) rows.rows[*one.row] = {*one.row, 0, one.message};
            as_written = written;
        };
        out().commit(store, what, [] {});
        return as_written;
    }

    runtime::publish_loop loop()
    {
        return {
            {.defer = {1'000ms, 3'600'000ms}, .pause = {0ms, 0ms}}, out(), publisher, stop, log, std::mt19937_64{11}};
    }
};

/// Turns until nothing is under way, as each receipt comes with a turn of its own.
void turn_until_idle(runtime::publish_loop& loop, runtime::memory_source const& source)
{
    do loop.pass(0ms);
    while (!source.is_idle());
}

bool is_as_before(ports::changes const& written)
{
    return std::ranges::none_of(written.messages, [](auto const& m) { return m.row || m.grace_period.count() > 0; });
}

bool goes_from_memory(ports::changes const& written)
{
    return std::ranges::all_of(written.messages, [](auto const& m) { return m.row && m.grace_period == 1h; });
}

}  // namespace

TEST_CASE("what commits is sent from memory under its row's number, and its row is deleted once it is confirmed")
{
    memory_bench b;
    auto loop = b.loop();
    loop.pass(0ms);
    auto const written = b.commit({1, 2});
    CHECK(goes_from_memory(written));
    CHECK(b.publisher.interrupted == 1);
    b.rows.on_resolve = [&] { CHECK(b.publisher.sent == ids{1, 2}); };
    turn_until_idle(loop, b.out());
    CHECK(b.publisher.sent == ids{1, 2});
    CHECK(b.rows.rows.empty());
    CHECK(b.rows.deferred.empty());
    CHECK_FALSE(b.is_left_to_the_table());
}

TEST_CASE("rows are deleted together, when there are enough of them")
{
    memory_bench b;
    b.options.delete_after = 1h;
    b.options.delete_at_once = 3;
    auto loop = b.loop();
    loop.pass(0ms);
    b.commit({1, 2, 3, 4});
    std::vector<std::size_t> left;
    b.rows.on_resolve = [&] { left.push_back(b.rows.rows.size()); };
    for (int i = 0; i < 6; ++i) loop.pass(0ms);
    CHECK(left == std::vector<std::size_t>{4});
    CHECK(b.rows.rows.size() == 1);
}

TEST_CASE("a commit that fails, or is in doubt, dispatches nothing and gives its room back")
{
    memory_bench b;
    b.options.messages_max = 2;
    auto loop = b.loop();
    loop.pass(0ms);
    b.store.on_commit = [](auto const& written) {
        CHECK(goes_from_memory(written));
        throw ports::fault{ports::fault_kind::in_doubt, "no reply to COMMIT"};
    };
    for (int i = 0; i < 5; ++i) {
        auto what = b.changes({1, 2});
        CHECK_THROWS_AS(b.out().commit(b.store, what, [] { FAIL("it has not committed"); }), ports::fault);
    }
    loop.pass(0ms);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("what follows a commit runs before anything is dispatched, and stops that by throwing")
{
    memory_bench b;
    b.options.messages_max = 1;
    auto loop = b.loop();
    loop.pass(0ms);
    bool has_committed = false;
    b.store.on_commit = [&](auto const&) { has_committed = true; };
    auto what = b.changes({1});
    auto const fail = [&] {
        CHECK(has_committed);
        throw std::runtime_error{"it died here"};
    };
    CHECK_THROWS_AS(b.out().commit(b.store, what, fail), std::runtime_error);
    loop.pass(0ms);
    CHECK(b.publisher.sent.empty());

    b.out().commit(b.store, what = b.changes({2}), [&] {
        loop.pass(0ms);
        CHECK(b.publisher.sent.empty());
    });
    loop.pass(0ms);
    CHECK(b.publisher.sent == ids{2});
}

TEST_CASE("what there is no room for is left to the table, which is woken, until there is room again")
{
    memory_bench b;
    SUBCASE("by number")
    {
        b.options.messages_max = 2;
    }
    SUBCASE("by size")
    {
        b.options.bytes_max = 1'500;
    }
    auto loop = b.loop();
    loop.pass(0ms);
    CHECK(goes_from_memory(b.commit({1, 2})));
    CHECK_FALSE(b.is_left_to_the_table());
    CHECK(is_as_before(b.commit({3})));
    CHECK(b.is_left_to_the_table());

    turn_until_idle(loop, b.out());
    CHECK(b.publisher.sent == ids{1, 2});
    CHECK(goes_from_memory(b.commit({4, 5})));
}

TEST_CASE("a message that waits for its time is left to the table, and its neighbour is not")
{
    memory_bench b;
    auto loop = b.loop();
    loop.pass(0ms);
    CHECK(is_as_before(b.commit({1}, 5s)));
    CHECK_FALSE(b.is_left_to_the_table());  // it is not due

    auto both = b.changes({2});
    both.messages.push_back(b.changes({3}, 5s).messages[0]);
    auto const written = b.commit(both);
    CHECK(written.messages[0].row);
    CHECK_FALSE(written.messages[1].row);
    loop.pass(0ms);
    CHECK(b.publisher.sent == ids{2});
}

TEST_CASE("without a broker, a loop, a grace period or a number, everything is left to the table")
{
    memory_bench b;
    SUBCASE("no loop") {}
    SUBCASE("no broker")
    {
        b.publisher.why_not = "connection refused";
        b.loop().pass(0ms);
    }
    SUBCASE("a broker that has gone away")
    {
        auto loop = b.loop();
        loop.pass(0ms);
        b.publisher.why_not = "connection refused";
        loop.pass(0ms);
    }
    SUBCASE("no grace period")
    {
        b.options.grace_period = 0ms;
        b.loop().pass(0ms);
    }
    SUBCASE("no number")
    {
        b.store.has_none = true;
        b.loop().pass(0ms);
    }
    CHECK(is_as_before(b.commit({1})));
    CHECK(b.is_left_to_the_table());
    b.loop().pass(0ms);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("what the broker says no to is deferred with its reason; what it does not answer comes due by itself")
{
    memory_bench b;
    b.options.messages_max = 3;
    auto loop = b.loop();
    loop.pass(0ms);
    b.publisher.says = {{1, publish_status::returned}, {2, publish_status::unresolved}};
    auto const written = b.commit({1, 2, 3});
    turn_until_idle(loop, b.out());
    CHECK(b.rows.ids() == ids{*written.messages[0].row, *written.messages[1].row});
    REQUIRE(b.rows.deferred.size() == 1);
    CHECK(b.rows.deferred[0].id == *written.messages[0].row);
    CHECK(b.rows.deferred[0].reason == "because of 1");
    CHECK(b.log.count("outbox.not_sent") == 1);
    CHECK(goes_from_memory(b.commit({4, 5, 6})));  // all three left their room
}

TEST_CASE("a message whose row may be due is not sent from memory any more")
{
    memory_bench b;
    b.options.grace_period = 1ms;
    auto loop = b.loop();
    loop.pass(0ms);
    auto late = b.changes({1});
    b.store.on_commit = [](auto const& written) {
        CHECK(written.messages[0].row);
        auto const until = runtime::memory_source::clock::now() + 1ms;
        while (runtime::memory_source::clock::now() < until) {}  // the COMMIT took that long
    };
    b.out().commit(b.store, late, [] {});
    loop.pass(0ms);
    CHECK(b.publisher.sent.empty());
    CHECK(b.is_left_to_the_table());
}

TEST_CASE("a loop of memory that breaks off forgets what it had in hand, and goes on with what comes then")
{
    memory_bench b;
    b.options.messages_max = 2;
    auto loop = b.loop();
    loop.pass(0ms);
    b.commit({1, 2});
    bool has_thrown = false;
    b.publisher.on_publish = [&] {
        if (std::exchange(has_thrown, true)) return;
        b.stop.stop();
        throw std::runtime_error{"out of memory"};
    };
    loop.run();
    CHECK(b.publisher.sent.empty());
    CHECK(b.rows.rows.size() == 2);
    CHECK(b.log.count("relay.waiting") == 1);

    loop.pass(0ms);
    CHECK(goes_from_memory(b.commit({3, 4})));
    loop.pass(0ms);
    CHECK(b.publisher.sent == ids{3, 4});
}

TEST_CASE("where rows can't be deleted they come due, and what is committed then is sent from memory again")
{
    memory_bench b;
    auto loop = b.loop();
    loop.pass(0ms);
    b.commit({1});
    b.rows.on_resolve = [&] {
        b.stop.stop();
        throw ports::fault{ports::fault_kind::connection_lost, "the server went away"};
    };
    loop.run();
    CHECK(b.publisher.sent == ids{1});
    CHECK(b.rows.rows.size() == 1);

    b.rows.on_resolve = [] {};
    loop.pass(0ms);
    b.commit({2});
    turn_until_idle(loop, b.out());
    CHECK(b.publisher.sent == ids{1, 2});
    CHECK(b.rows.rows.size() == 1);
}

TEST_CASE("at its end the loop of memory sends what was dispatched, waits for the answers and deletes the rows")
{
    memory_bench b;
    auto loop = b.loop();
    loop.pass(0ms);
    b.commit({1, 2, 3});
    b.stop.stop();
    loop.run();
    CHECK(b.publisher.sent == ids{1, 2, 3});
    CHECK(b.rows.rows.empty());
    CHECK(is_as_before(b.commit({4})));
}

TEST_CASE("what was just committed is sent, confirmed and deleted while a backlog of the table is being sent")
{
    memory_bench b;
    b.relay.options.batch_max = 500;
    for (int id = 1; id <= 2'000; ++id) b.relay.outbox.add(id);
    b.relay.outbox.is_due = false;
    auto loop = b.loop();
    loop.pass(0ms);
    b.relay.outbox.is_due = true;
    std::vector<std::size_t> backlog_left;
    b.relay.publisher.on_publish = [&] {
        b.commit({7});
        turn_until_idle(loop, b.out());
        CHECK(b.rows.rows.empty());
        backlog_left.push_back(b.relay.outbox.rows.size());
    };
    CHECK(b.others->drain() == 2'000);
    CHECK(b.publisher.sent == ids{7, 7, 7, 7});
    CHECK(backlog_left == std::vector<std::size_t>{2'000, 1'500, 1'000, 500});
}
