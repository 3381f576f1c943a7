// External steps, waits and signals in the harness.
#include "bank.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>

namespace kit_bank {
using namespace std::chrono_literals;
using skald::signal_result;
using skald::testing::crash_point;
using skald::testing::rows;

namespace {

constexpr auto buy = skald::define("buy", bank_steps::charge, bank_steps::approve, bank_steps::cool_off);

auto const monday = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()) + 24h;

/// Rewound for each test.
struct bank_day
{
    bank_day()
    {
        shop().rewind();
        *gateway() = {};
    }

    static std::shared_ptr<bank> const& gateway()
    {
        static auto const made = std::make_shared<bank>();
        return made;
    }

    static skald::testing::harness& shop()
    {
        static skald::testing::harness made;
        static auto& all = []() -> auto&
        {
            auto till = furnished("till"), desk = furnished("desk");
            till.host(buy, bank_steps::charge, charge{gateway()}, refund{gateway()});
            desk.host(buy, bank_steps::approve, approve{}).host(buy, bank_steps::cool_off, cool_off{monday});
            return made.add(std::move(till)).add(std::move(desk));
        }
        ();
        return all;
    }

    static std::string start()
    {
        return shop().start(buy, purchase{"p", 100}, {.key = "k", .scope = "", .deadline = {}});
    }
    static rows effects(std::string const& service)
    {
        return shop().ask(service, "SELECT what FROM effect ORDER BY 1");
    }
};

}  // namespace

TEST_CASE_FIXTURE(bank_day, "a signal for a step that never waits is refused, where the service of that step is asked")
{
    auto const key = start();
    for (auto const* const attempt : {"first", "after a rewind"}) {
        CAPTURE(attempt);
        CHECK(shop().signal(key, "charge", approval{"eve", true}) == signal_result::no_wait);
        CHECK(shop().signal(key, "cool-off", approval{"eve", true}) == signal_result::sent);  // its home can't know
        shop().deliver_all();
        CHECK(shop().ask("desk", "SELECT reason FROM skald.parked") == rows{"malformed"});
        shop().rewind();
        start();
    }
}

TEST_CASE_FIXTURE(bank_day, "an external step, a wait and a timer are stepped like anything else")
{
    auto const key = start();
    CHECK(shop().deliver_next());
    CHECK(effects("till") == rows{"intent"});
    CHECK(gateway()->did.empty());
    REQUIRE(shop().started().size() == 1);
    CHECK(shop().started().front().kind == "call");
    CHECK(shop().deliver_next());
    CHECK(gateway()->did == std::vector<std::string>{"charge k:charge"});
    CHECK(effects("till") == rows{"intent", "receipt"});
    CHECK(shop().applied_once(key, "charge"));

    shop().deliver_all();
    REQUIRE(shop().started().size() == 1);
    CHECK(shop().started().front().step == "approve");
    CHECK(shop().started().front().kind == "wait");
    CHECK(shop().started().front().due_in > 59min);
    CHECK(shop().signal(key, "approve", approval{"eve", true}) == signal_result::sent);
    // It is on its way to another service, and the home has kept it: the first counts.
    CHECK(shop().signal(key, "approve", approval{"eve", false}) == signal_result::mismatch);
    CHECK(shop().signal(key, "nothing", 1) == signal_result::no_step);
    CHECK(shop().signal("other", "approve", 1) == signal_result::no_saga);
    shop().deliver_all();
    CHECK(shop().ran("approve.arrived", 1));
    CHECK(shop().applied_once(key, "approve"));
    REQUIRE(shop().started().size() == 1);
    CHECK(shop().started().front().step == "cool-off");
    shop().advance(23h);
    shop().deliver_all();
    CHECK(shop().saga_is(key, "running"));
    shop().advance(1h);
    shop().deliver_all();
    CHECK(shop().saga_is(key, "completed"));
    for (auto const* const once : {"charge", "charge.call", "charge.settle", "approve"}) CHECK(shop().ran(once, 1));
    CHECK(shop().ran("charge.look", 0));
}

TEST_CASE_FIXTURE(bank_day, "run_to_the_end moves the clock to the end of a wait, and compensates by a call")
{
    auto const key = start();
    shop().run_to_the_end();
    CHECK(shop().saga_is(key, "compensated"));
    CHECK(shop().saga(key).reason == "nobody answered");
    CHECK(shop().ran("approve.timed_out", 1));
    CHECK(shop().ran("approve.abandon", 1));
    CHECK(gateway()->did == std::vector<std::string>{"charge k:charge", "refund k:charge.compensate"});
    CHECK(shop().ran("charge.compensate.call", 1));
    CHECK(shop().applied_once(key, "charge.compensate"));
    CHECK(effects("till").empty());
    CHECK(shop().started().empty());
}

TEST_CASE_FIXTURE(bank_day, "a service that dies anywhere around a call asks before it calls again, and charges once")
{
    for (auto const* const part : {"charge", "charge.call", "charge.settle"}) {
        for (auto const& at : skald::testing::crash_points) {
            bool const is_of_calls = at.point >= crash_point::before_call;
            bool const is_of_relays = at.point >= crash_point::before_publish && !is_of_calls;
            if (is_of_relays || is_of_calls != std::string{part}.ends_with(".call")) continue;
            CAPTURE(part);
            CAPTURE(at.name);
            shop().rewind();
            *gateway() = {};
            auto const key = start();
            shop().crash_at(at.point, part);
            shop().signal(key, "approve", approval{"eve", true});
            shop().run_to_the_end();
            CHECK(shop().saga_is(key, "completed"));
            CHECK(gateway()->did.size() == 1);
            CHECK(shop().applied_once(key, "charge"));
            CHECK(effects("till") == rows{"intent", "receipt"});
            bool const is_called_again = at.point == crash_point::before_call;
            bool const is_asked = std::string{part} != "charge" && at.point != crash_point::answer_lost &&
                                  at.point != crash_point::commit_lost && at.point != crash_point::after_commit;
            CHECK(shop().ran("charge.call", 1));
            CHECK(shop().ran("charge.look", is_asked ? 1 : 0));
            CHECK(shop().records(key).front().attempts == (is_called_again ? 2 : 1));
        }
    }
}

TEST_CASE_FIXTURE(bank_day, "a crash at a call needs the lease to end: until then the step is somebody's")
{
    start();
    shop().crash_at(crash_point::after_call, "charge.call");
    shop().deliver_all();
    CHECK(gateway()->did.size() == 1);
    CHECK(shop().ran("charge.look", 0));
    shop().advance(14s);
    shop().deliver_all();
    CHECK(shop().ran("charge.look", 0));
    shop().advance(1s);
    shop().deliver_all();
    CHECK(shop().ran("charge.look", 1));
    CHECK(effects("till") == rows{"intent", "receipt"});
}

TEST_CASE_FIXTURE(bank_day, "calls are made to fail, not to happen, or not to be known")
{
    auto const key = start();
    SUBCASE("a call that throws after it has happened is asked about")
    {
        shop().fail("charge.call", 1);
        shop().fail("charge.look", 2);
        shop().deliver_all();
        REQUIRE(shop().started().size() == 1);
        CHECK(shop().started().front().is_in_doubt);
        CHECK(has(shop().saga_is(key, "completed").text(),
                  "charge in till was called, and what became of that is not known; due in "));
        shop().advance(10s);
        shop().deliver_all();
        shop().advance(10s);
        shop().deliver_all();
        shop().advance(10s);
        shop().deliver_all();
        CHECK(shop().ran("charge.look", 3));
        CHECK(shop().ran("charge.call", 1));
        CHECK(effects("till") == rows{"intent", "receipt"});
    }
    SUBCASE("a call that does not happen is another attempt")
    {
        shop().refuse_call("charge", 2);
        shop().advance(1h);
        shop().signal(key, "approve", approval{"eve", true});
        shop().run_to_the_end();
        CHECK(shop().ran("charge.call", 1));
        CHECK(shop().records(key).front().attempts == 3);
        CHECK(shop().saga_is(key, "completed"));
    }
    SUBCASE("one that never happens is given up, and what was prepared is undone")
    {
        shop().refuse_call("charge");
        shop().run_to_the_end();
        CHECK(shop().saga_is(key, "compensated"));
        CHECK(shop().ran("charge.abandon", 1));
        CHECK(effects("till").empty());
    }
    SUBCASE("an end that can't be recorded is recorded later")
    {
        shop().fail("charge.settle", 3);
        shop().run_to_the_end();
        CHECK(shop().ran("charge.settle", 4));
        CHECK(shop().ran("charge.look", 0));
        CHECK(shop().ran("charge.call", 1));
    }
    SUBCASE("an end that rejects")
    {
        shop().reject_at("charge.settle", "declined");
        shop().run_to_the_end();
        CHECK(shop().saga_is(key, "compensated"));
        CHECK(shop().saga(key).reason == "declined");
        CHECK(effects("till").empty());
    }
    SUBCASE("nobody knows")
    {
        gateway()->can_tell = false;
        shop().fail("charge.call", 1);
        shop().run_to_the_end();
        CHECK(shop().saga_is(key, "unknown"));
        CHECK(shop().records(key).front().status == "unknown");
        gateway()->can_tell = true;
        shop().advance(1min);
        shop().deliver_all();
        CHECK(shop().saga_is(key, "running"));
        CHECK(effects("till") == rows{"intent", "receipt"});
    }
}

TEST_CASE_FIXTURE(bank_day, "run_to_the_end tells the step that can't end, and its error")
{
    start();
    SUBCASE("a signal that does not fit the step")
    {
        shop().deliver_all();
        CHECK(shop().signal("k", "approve", std::string{"junk"}) == signal_result::sent);
        CHECK_THROWS_WITH_AS(shop().run_to_the_end(), doctest::Contains("approve in desk does not end, after 20 tries"),
                             std::runtime_error);
        CHECK(shop().ran("approve.arrived", 0));
    }
    SUBCASE("a settle that throws")
    {
        shop().fail("charge.settle");
        CHECK_THROWS_WITH_AS(shop().run_to_the_end(), doctest::Contains("a fault that the test asked for"),
                             std::runtime_error);
        CHECK_THROWS_WITH(shop().run_to_the_end(), doctest::Contains("charge in till does not end, after 20 tries"));
    }
}

TEST_CASE_FIXTURE(bank_day, "the clock that a test moves reaches the deadline of a saga whose step waits")
{
    shop().start(buy, purchase{"p", 100}, {.key = "k", .scope = "", .deadline = 30min});
    shop().deliver_all();
    REQUIRE(shop().started().size() == 1);
    CHECK(shop().started().front().due_in <= 30min);
    shop().advance(31min);
    shop().deliver_all();
    CHECK(shop().saga_is("k", "compensated"));
    CHECK(shop().ran("approve.timed_out", 0));
}

TEST_CASE_FIXTURE(bank_day, "a process whose lease is over can't record what it did: the one that has it now did")
{
    auto const key = start();
    shop().crash_at(crash_point::lease_lost, "charge.call");
    shop().deliver_all();
    CHECK(shop().applied_once(key, "charge"));
    CHECK(shop().ran("charge.look", 1));
    CHECK(shop().ran("charge.settle", 1));
    CHECK(effects("till") == rows{"intent", "receipt"});
    CHECK(gateway()->did.size() == 1);
}

TEST_CASE_FIXTURE(bank_day, "the parts of an external step run alone, in a transaction that leaves nothing behind")
{
    purchase p{"p", 100};
    charge const step{gateway()};
    refund const undo{gateway()};
    {
        auto alone = shop().alone("till");
        skald::testing::step_circumstances const around{.key = "k", .step = "charge", .scope = "", .attempt = 1};
        CHECK(alone.prepare(step, p, around).is_done());
        CHECK(alone.look(step, p, around).happened() == nullptr);
        auto const got = alone.call(step, p, around);
        CHECK(got.number == "charge k:charge");
        CHECK(alone.look(step, p, around).happened()->number == "charge k:charge");
        CHECK(alone.settle(step, p, got, around).is_done());
        CHECK(p.receipt == "charge k:charge");
        CHECK(alone.ask("SELECT count(*) FROM effect") == rows{"2"});
        alone.abandon(step, p, around);
        CHECK(alone.ask("SELECT count(*) FROM effect") == rows{"0"});
        CHECK(alone.prepare(undo, p, around).is_done());
        CHECK(alone.call(undo, p, around).number == "refund k:charge.compensate");
        CHECK(alone.settle(undo, p, receipt{"r"}, around).is_done());
    }
    auto alone = shop().alone("desk");
    CHECK(alone.begin(approve{}, p).is_done());
    CHECK(alone.arrived(approve{}, p, approval{"eve", true}).is_done());
    CHECK(alone.arrived(approve{}, p, approval{"eve", false}).rejected()->reason == "not approved by eve");
    CHECK(alone.timed_out(approve{}, p).rejected()->reason == "nobody answered");
    CHECK(effects("till").empty());
}

}  // namespace kit_bank
