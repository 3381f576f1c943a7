// What is handed over in memory: marked before COMMIT, sent after it, told to the relay once confirmed; and left to
// come due wherever that can't be.
#include "unit/relay_bench.hpp"

#include "runtime/sender.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using ports::publish_status;

namespace {

/// Numbers rows from 100 on.
class numbering_store final : public ports::store
{
public:
    bool has_none{};
    std::int64_t next{100};

    std::vector<std::int64_t> new_rows(std::size_t count) override
    {
        std::vector<std::int64_t> rows;
        while (!has_none && rows.size() < count) rows.push_back(next++);
        return rows;
    }

    void connect() override {}
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const>,
                                           std::optional<std::chrono::milliseconds>) override
    {
        return {};
    }
    detail::unit_of_work& unit() override { throw std::logic_error{"no transaction"}; }
    core::instant claimed_at() const override { return {}; }
    void commit(ports::changes const&) override {}
    void write(ports::changes const&) override {}
    bool is_still_claimed() noexcept override { return true; }
    void rollback() noexcept override {}
    ports::request_claim begin_request(ports::claim_item const&, std::optional<std::chrono::milliseconds>) override
    {
        return {};
    }
    void begin_batch() override {}
    bool batch_is_open() const noexcept override { return false; }
    void commit_batch() override {}
    void rollback_batch() noexcept override {}
    ports::fault classify_current() override { return {ports::fault_kind::broken, ""}; }
};

struct hand_over_bench
{
    runtime::outbound_options options{.head_start = 1h};
    numbering_store store;
    scripted_publisher publisher;
    runtime::stop_flag stop;
    event_log log;
    std::optional<runtime::outbound> made;
    runtime::sender_options sending{.told_after = 0ms};

    runtime::outbound& out()
    {
        if (!made) made.emplace(options);
        return *made;
    }

    static ports::changes changes(std::vector<int> const& numbers, std::chrono::milliseconds delay = {})
    {
        ports::changes made;
        for (auto const n : numbers)
            made.messages.push_back(
                {message_to("payments", "order-" + std::to_string(n) + ":charge"), "", "saga", "order", delay});
        return made;
    }

    /// A transaction that commits.
    ports::changes commit(std::vector<int> const& numbers, std::chrono::milliseconds delay = {})
    {
        auto what = changes(numbers, delay);
        auto leaving = out().prepare(store, what);
        auto const as_written = what;
        leaving.hand_over(what);
        return as_written;
    }

    runtime::sender sender() { return {sending, out(), publisher, stop, log}; }
};

bool is_left_to_relay(ports::changes const& written)
{
    return std::ranges::none_of(written.messages, [](auto const& m) { return m.row || m.head_start.count() > 0; });
}

bool is_handed_over(ports::changes const& written)
{
    return std::ranges::all_of(written.messages, [](auto const& m) { return m.row && m.head_start == 1h; });
}

}  // namespace

TEST_CASE("what commits is sent from memory under its row's number, and told once it is confirmed")
{
    hand_over_bench b;
    auto sender = b.sender();
    sender.turn(0ms);
    auto const written = b.commit({1, 2});
    CHECK(is_handed_over(written));
    CHECK(b.publisher.interrupted == 1);
    sender.turn(0ms);
    CHECK(b.publisher.sent == ids{1, 2});
    sender.turn(0ms);
    sender.turn(0ms);
    auto const answers = b.out().take_answers();
    CHECK(std::set(answers.confirmed.begin(), answers.confirmed.end()) ==
          std::set{*written.messages[0].row, *written.messages[1].row});
    CHECK(answers.failed.empty());
    CHECK_FALSE(b.out().wait(0ms));  // nothing is due that the relay would have to look for
}

TEST_CASE("a commit that fails, or is in doubt, hands nothing over and gives its room back")
{
    hand_over_bench b;
    b.options.messages_max = 2;
    b.out().open(b.publisher);
    auto sender = b.sender();
    for (int i = 0; i < 5; ++i) {
        auto what = b.changes({1, 2});
        auto const leaving = b.out().prepare(b.store, what);
        CHECK(is_handed_over(what));
    }
    sender.turn(0ms);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("what there is no room for is left to the relay, which is woken, until there is room again")
{
    hand_over_bench b;
    SUBCASE("by number")
    {
        b.options.messages_max = 2;
    }
    SUBCASE("by size")
    {
        b.options.bytes_max = 1'500;
    }
    auto sender = b.sender();
    sender.turn(0ms);
    CHECK(is_handed_over(b.commit({1, 2})));
    CHECK_FALSE(b.out().wait(0ms));
    CHECK(is_left_to_relay(b.commit({3})));
    CHECK(b.out().wait(0ms));

    for (int i = 0; i < 4; ++i) sender.turn(0ms);
    CHECK(b.publisher.sent == ids{1, 2});
    CHECK(is_handed_over(b.commit({4, 5})));
}

TEST_CASE("a message that waits for its time is left to the relay, and its neighbour is not")
{
    hand_over_bench b;
    auto sender = b.sender();
    sender.turn(0ms);
    CHECK(is_left_to_relay(b.commit({1}, 5s)));
    CHECK_FALSE(b.out().wait(0ms));  // it is not due

    auto both = b.changes({2});
    both.messages.push_back(b.changes({3}, 5s).messages[0]);
    auto leaving = b.out().prepare(b.store, both);
    CHECK(both.messages[0].row);
    CHECK_FALSE(both.messages[1].row);
    leaving.hand_over(both);
    sender.turn(0ms);
    CHECK(b.publisher.sent == ids{2});
}

TEST_CASE("without a broker, a sender, a head start or a number, everything is left to the relay")
{
    hand_over_bench b;
    SUBCASE("no sender") {}
    SUBCASE("no broker")
    {
        b.publisher.why_not = "connection refused";
        b.sender().turn(0ms);
    }
    SUBCASE("a broker that has gone away")
    {
        auto sender = b.sender();
        sender.turn(0ms);
        b.publisher.why_not = "connection refused";
        sender.turn(0ms);
    }
    SUBCASE("no head start")
    {
        b.options.head_start = 0ms;
        b.sender().turn(0ms);
    }
    SUBCASE("no number")
    {
        b.store.has_none = true;
        b.sender().turn(0ms);
    }
    CHECK(is_left_to_relay(b.commit({1})));
    CHECK(b.out().wait(0ms));
    b.sender().turn(0ms);
    CHECK(b.publisher.sent.empty());
}

TEST_CASE("what the broker says no to is told with its reason; what it does not answer comes due by itself")
{
    hand_over_bench b;
    b.options.messages_max = 3;
    auto sender = b.sender();
    sender.turn(0ms);
    b.publisher.says = {{1, publish_status::returned}, {2, publish_status::unresolved}};
    auto const written = b.commit({1, 2, 3});
    runtime::handed_over told;
    for (int i = 0; i < 5; ++i) {
        sender.turn(0ms);
        auto more = b.out().take_answers();
        told.confirmed.insert(told.confirmed.end(), more.confirmed.begin(), more.confirmed.end());
        told.failed.insert(told.failed.end(), more.failed.begin(), more.failed.end());
    }
    CHECK(told.confirmed == ids{*written.messages[2].row});
    REQUIRE(told.failed.size() == 1);
    CHECK(told.failed[0].row == *written.messages[0].row);
    CHECK(told.failed[0].key == "order-1:charge");
    CHECK(told.failed[0].destination == "payments");
    CHECK(told.failed[0].reason == "because of 1");
    CHECK(is_handed_over(b.commit({4, 5, 6})));  // all three left their room
}

TEST_CASE("a message whose row may be due is not sent from memory any more")
{
    hand_over_bench b;
    b.options.head_start = 1ms;
    auto sender = b.sender();
    sender.turn(0ms);
    auto late = b.changes({1});
    auto leaving = b.out().prepare(b.store, late);
    CHECK(late.messages[0].row);
    auto const until = runtime::outbound::clock::now() + 1ms;
    while (runtime::outbound::clock::now() < until) {}
    leaving.hand_over(late);  // the COMMIT took that long
    sender.turn(0ms);
    CHECK(b.publisher.sent.empty());
    CHECK(b.out().wait(0ms));
}

TEST_CASE("a sender that breaks off forgets what it had in hand, and goes on with what comes then")
{
    hand_over_bench b;
    b.options.messages_max = 2;
    auto sender = b.sender();
    sender.turn(0ms);
    b.commit({1, 2});
    bool has_thrown = false;
    b.publisher.on_publish = [&] {
        if (std::exchange(has_thrown, true)) return;
        b.stop.stop();
        throw std::runtime_error{"out of memory"};
    };
    sender.run();
    CHECK(b.publisher.sent.empty());
    CHECK(b.out().take_answers().empty());
    CHECK(b.log.count("outbox.not_handed_over") == 1);

    sender.turn(0ms);
    CHECK(is_handed_over(b.commit({3, 4})));
    sender.turn(0ms);
    CHECK(b.publisher.sent == ids{3, 4});
}

TEST_CASE("at its end the sender sends what was handed over, and waits for the answers")
{
    hand_over_bench b;
    b.sending.told_after = 1h;
    auto sender = b.sender();
    sender.turn(0ms);
    b.commit({1, 2, 3});
    b.stop.stop();
    sender.run();
    CHECK(b.publisher.sent == ids{1, 2, 3});
    CHECK(b.out().take_answers().confirmed.size() == 3);
    CHECK(is_left_to_relay(b.commit({4})));
}

TEST_CASE("the relay deletes what was confirmed and puts off what was refused, without a look for what is due")
{
    bench b;
    for (int id : {1, 2, 3}) b.outbox.add(id);
    b.outbox.is_due = false;  // all of them have a head start
    b.options.poll = 1h;
    b.outbox.on_take = [&] {
        if (b.outbox.takes == 1) b.out.answer({{1, 3}, {{2, "order-2:charge", "payments", "no queue is bound"}}});
    };
    b.outbox.on_settle = [&] { b.stop.stop(); };
    b.relay().run();
    CHECK(b.outbox.ids() == ids{2});
    REQUIRE(b.outbox.put_offs.size() == 1);
    CHECK(b.outbox.put_offs[0].id == 2);
    CHECK(b.outbox.put_offs[0].reason == "no queue is bound");
    CHECK(b.log.count("outbox.not_sent") == 1);
    CHECK(b.publisher.sent.empty());
    CHECK(b.outbox.takes == 2);  // the first look, and the last one
}
