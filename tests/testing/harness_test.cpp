// The harness: what a test does to a saga step by step, and what it can ask and expect.
#include "shop.hpp"

#include <doctest/doctest.h>
#include <pqxx/pqxx>

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

using namespace kit_test;
using namespace std::chrono_literals;
using skald::testing::crash_point;
using skald::testing::message_view;
using skald::testing::rows;

namespace {

// One for all: its databases are made once, and brought back for each test.
skald::testing::harness& shop()
{
    static auto const made = make_shop();
    return *made;
}

struct new_day
{
    new_day() { shop().rewind(); }
    std::string start() { return shop().start(place_order, pen(), {.key = "k"}); }
    rows charges() { return shop().ask("payments", "SELECT order_id, kind FROM charge ORDER BY 1, 2"); }

    /// The last that was sent under that name.
    static message_view last_sent(std::string const& name)
    {
        message_view found;
        for (auto& m : shop().sent())
            if (m.name == name) found = m;
        REQUIRE_MESSAGE(found.number > 0, "nothing was sent under the name " << name);
        return found;
    }
};

}  // namespace

TEST_CASE_FIXTURE(new_day, "a saga is stepped to its end, and everything about it can be asked")
{
    auto const key = start();
    CHECK(shop().saga_is(key, "running"));
    REQUIRE(shop().waiting().size() == 1);
    CHECK(shop().waiting().front().name == "create-order");
    CHECK(shop().deliver_next());
    CHECK(shop().waiting().front().name == "charge-payment");
    CHECK(charges().empty());
    CHECK(shop().deliver_next());
    CHECK(charges() == rows{"o-1 | charge"});

    CHECK(shop().deliver_all() == 4);
    CHECK_FALSE(shop().deliver_next());
    CHECK(shop().saga_is(key, "completed"));
    CHECK(shop().outboxes_are_empty());
    CHECK(shop().ran("charge-payment", 1));
    CHECK(shop().applied_once(key, "charge-payment"));
    CHECK(shop().was_sent("arrange-shipping"));
    CHECK(shop().records(key).size() == 4);
    CHECK(shop().ask("payments", "SELECT cents FROM wallet") == rows{"900"});
}

TEST_CASE_FIXTURE(new_day, "a delivery that comes again, early or late, changes nothing")
{
    auto const key = start();
    shop().deliver_next();
    shop().deliver_next();
    shop().replay(last_sent("charge-payment"), 3);
    shop().deliver_all();
    shop().replay(last_sent("charge-payment"));
    shop().deliver_all();
    CHECK(shop().ran("charge-payment", 1));
    CHECK(shop().applied_once(key, "charge-payment"));
    CHECK(charges() == rows{"o-1 | charge"});
}

TEST_CASE_FIXTURE(new_day, "a service that dies at any point starts again and does what is left")
{
    for (auto const& at : skald::testing::crash_points) {
        CAPTURE(at.name);
        auto const point = at.point;
        if (std::string_view{at.name}.ends_with(" the call")) continue;  // it makes none
        shop().rewind();
        auto const key = start();
        shop().crash_at(point, "charge-payment");
        shop().deliver_all();
        CHECK(shop().saga_is(key, "completed"));
        CHECK(shop().applied_once(key, "charge-payment"));
        CHECK(charges() == rows{"o-1 | charge"});
        // The code has run twice where the first time came to nothing.
        bool const came_to_nothing = point == crash_point::after_step || point == crash_point::before_commit ||
                                     point == crash_point::commit_lost;
        CHECK(shop().ran("charge-payment", came_to_nothing ? 2 : 1));
    }
}

TEST_CASE_FIXTURE(new_day, "a step that is told to say no sends the saga back")
{
    auto const key = start();
    shop().reject_at("arrange-shipping", "out of stock");
    shop().deliver_all();
    CHECK(shop().saga_is(key, "compensated"));
    CHECK(shop().saga(key).reason == "out of stock");
    CHECK(charges() == rows{"o-1 | charge", "o-1 | refund"});
    CHECK(shop().ask("shipping", "SELECT free FROM stock") ==
          rows{"5"});  // its own code ran, and nothing of it remains
    CHECK(shop().ran("charge-payment.compensate", 1));
}

TEST_CASE_FIXTURE(new_day, "a step that is told to fail is tried again when its time has come")
{
    auto const key = start();
    shop().fail("charge-payment", 2);
    shop().deliver_all();
    CHECK(shop().ran("charge-payment", 1));
    shop().advance(200ms);  // the longest that the first wait can be
    shop().deliver_all();
    CHECK(shop().ran("charge-payment", 2));
    shop().run_to_the_end();
    CHECK(shop().ran("charge-payment", 3));
    CHECK(shop().saga_is(key, "completed"));
    CHECK(charges() == rows{"o-1 | charge"});
}

TEST_CASE_FIXTURE(new_day, "the clock that a test moves reaches deadlines of sagas, also of messages under way")
{
    shop().start(place_order, pen(), {.key = "k", .scope = "", .deadline = 1h});
    shop().deliver_next();
    CHECK(shop().waiting().front().name == "charge-payment");  // in its service's hands
    shop().advance(2h);
    shop().run_to_the_end();
    CHECK(shop().saga_is("k", "compensated"));
    CHECK(shop().ran("charge-payment", 0));

    shop().rewind();
    shop().start(place_order, pen(), {.key = "k", .scope = "", .deadline = 1h});
    shop().advance(59min);
    shop().run_to_the_end();
    CHECK(shop().saga_is("k", "completed"));
}

TEST_CASE_FIXTURE(new_day, "a saga is cancelled while it can be, and refused when it can't")
{
    auto const key = start();
    shop().deliver_next();
    shop().cancel(key);
    shop().deliver_all();
    CHECK(shop().saga_is(key, "compensated"));
    CHECK_THROWS_WITH_AS(shop().cancel(key), doctest::Contains("can't be cancelled"), std::runtime_error);
    CHECK_THROWS_AS(shop().cancel("nobody"), std::runtime_error);
}

TEST_CASE_FIXTURE(new_day, "a delivery overtakes those that have waited longer")
{
    auto const key = start();
    shop().deliver_next();
    shop().cancel(key);
    CHECK(shop().waiting().front().name == "charge-payment");
    CHECK(shop().deliver("control@payments"));
    CHECK_FALSE(shop().deliver("control@payments"));
    shop().deliver_all();
    CHECK(shop().ran("charge-payment", 0));
    CHECK(shop().saga_is(key, "compensated"));
}

TEST_CASE_FIXTURE(new_day, "what a test commits in a service's database by itself is sent like what a step commits")
{
    auto const key = start();
    auto const command = [&key](auto const& give) {
        pqxx::connection c{shop().database_url("orders")};
        pqxx::work tx{c};
        give(tx, key, skald::command_options{});
        tx.commit();
    };
    command(skald::pause_saga);
    shop().deliver_all();
    CHECK(shop().run_to_the_end() == 0);  // what is paused would be put back for ever
    CHECK(shop().ran("create-order", 0));
    command(skald::resume_saga);
    REQUIRE(shop().waiting().size() == 3);  // the step again, and the command for the other services
    shop().deliver_all();
    CHECK(shop().saga_is(key, "completed"));

    shop().ask("orders", "SELECT skald.enqueue('payments', 'charge-payment', 'late', '{}')");
    CHECK(shop().deliver_next());
    shop().ask("orders", "SELECT skald.enqueue('payments', 'charge-payment', 'later', '{}')");
    CHECK(shop().run_to_the_end() == 1);
}

TEST_CASE_FIXTURE(new_day, "what was expected and is not says what there is instead")
{
    auto const key = start();
    shop().deliver_next();
    auto const is = shop().saga_is(key, "completed");
    CHECK_FALSE(is);
    CHECK(has(is.text(), "the saga k is expected to be completed, and it is running"));
    CHECK(has(is.text(), "create-order in orders: completed"));
    CHECK(has(is.text(), "waiting to be delivered: charge-payment"));
    CHECK(has(shop().saga_is("other", "completed").text(), "there is no such saga"));
    CHECK(has(shop().was_sent("charge-payment", 2).text(), "was 1 times. Sent: create-order, charge-payment"));
    CHECK(has(shop().ran("create-order", 2).text(), "ran 1 times"));
    CHECK(has(shop().applied_once(key, "charge-payment").text(), "its record says nothing: there is none"));
    shop().deliver_next();
    CHECK(has(shop().outboxes_are_empty().text(), "payments: k:arrange-shipping for shipping"));
}

TEST_CASE_FIXTURE(new_day, "one step runs alone, in a transaction that leaves nothing behind")
{
    {
        auto alone = shop().alone("payments");
        auto o = pen();
        CHECK(alone.execute(charge_payment{}, o).is_done());
        CHECK(alone.ask("SELECT cents FROM wallet") == rows{"900"});
        alone.compensate(charge_payment{}, o);
        CHECK(alone.ask("SELECT cents FROM wallet") == rows{"1000"});
        o.cents = 5000;
        auto const said = alone.execute(charge_payment{}, o);
        REQUIRE(said.rejected() != nullptr);
        CHECK(said.rejected()->reason == "insufficient funds");
    }
    CHECK(shop().ask("payments", "SELECT cents FROM wallet") == rows{"1000"});
    CHECK(charges().empty());
}

namespace {

struct announcing final : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.publish("mails", "receipt", {{"order", o.id}, {"try", ctx.attempt()}});
        o.cents = 7;
        return skald::done();
    }
    void compensate(skald::step_context& ctx, order&) const override { ctx.tx().exec("COMMIT"); }
};

struct careless final : skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context& ctx, order&) const override
    {
        try {
            ctx.sql("SELECT 1 / 0");
        }
        catch (std::exception const&) {
        }
        return skald::done();
    }
};

}  // namespace

TEST_CASE_FIXTURE(new_day, "a step alone shows what it would send, and is told what could not be committed")
{
    auto o = pen();
    auto alone = shop().alone("payments");
    alone.execute(announcing{}, o, {.key = "k", .step = "announce", .scope = "", .attempt = 3});
    REQUIRE(alone.published().size() == 1);
    CHECK(alone.published().front().destination == "mails");
    CHECK(alone.published().front().id == "k:announce.1.receipt");
    CHECK(alone.published().front().body == R"({"order":"o-1","try":3})");
    CHECK(o.cents == 7);
    CHECK_THROWS_WITH_AS(alone.compensate(announcing{}, o), doctest::Contains("a step ran COMMIT itself"),
                         pqxx::sql_error);
    auto other = shop().alone("payments");
    CHECK_THROWS_WITH_AS(other.execute(careless{}, o), doctest::Contains("SQL error that it caught"), std::logic_error);
}

TEST_CASE("a harness says what is missing or wrong before anything runs")
{
    using skald::configuration_error;
    skald::testing::harness half;
    half.add(orders());
    CHECK_THROWS_WITH_AS(half.add(orders()), doctest::Contains("hosted twice"), configuration_error);
    CHECK_THROWS_WITH_AS(half.ask("payment", "SELECT 1"), doctest::Contains("there is orders, payments, shipping"),
                         configuration_error);
    CHECK_THROWS_WITH_AS(half.start(place_order, pen()),
                         doctest::Contains("no service hosts the step charge-payment of place-order"),
                         configuration_error);

    skald::testing::harness nowhere{"host=127.0.0.1 port=1 user=nobody"};
    nowhere.add(only_tables("orders", "0001_orders", tables::orders));
    CHECK_THROWS_WITH_AS(nowhere.ask("orders", "SELECT 1"), doctest::Contains("needs a PostgreSQL server"),
                         configuration_error);

    skald::testing::harness wrong;
    wrong.given("orders", "INSERT INTO nothing VALUES (1)");
    CHECK_THROWS_WITH_AS(wrong.ask("orders", "SELECT 1"), doctest::Contains("given(\"orders\", ...)"),
                         configuration_error);
}

TEST_CASE("a message that a step publishes goes to a queue of its own, and can be seen")
{
    skald::testing::harness shop;
    static constexpr skald::compensatable<order> announce{"announce", "payments"};
    static constexpr auto saga = skald::define("announcing", announce);
    skald::service payments{"payments"};
    payments.host(saga, announce, announcing{});
    shop.add(std::move(payments));
    shop.start(saga, pen(), {.key = "k"});
    shop.deliver_all();
    CHECK(shop.saga_is("k", "completed"));
    CHECK(shop.was_sent("announce.1.receipt"));
}

namespace {

struct expiring final : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order&) const override
    {
        if (ctx.now() - first < 1h) return skald::snooze(30min);
        return skald::reject("expired");
    }
    void compensate(skald::step_context&, order&) const override {}

    std::chrono::sys_time<std::chrono::microseconds> first;
};

}  // namespace

TEST_CASE("a step that decides by the clock is tested by moving it")
{
    skald::testing::harness shop;
    static constexpr skald::compensatable<order> expire{"expire", "payments"};
    static constexpr auto saga = skald::define("expiring", expire);
    skald::service payments{"payments"};
    expiring step;
    step.first = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    payments.host(saga, expire, step);
    shop.add(std::move(payments));
    for (int day = 0; day < 2; ++day) {  // the second begins without the first one's hours
        auto const key = shop.start(saga, pen());
        shop.deliver_all();
        shop.advance(30min);
        shop.deliver_all();
        CHECK(shop.saga_is(key, "running"));
        shop.advance(31min);
        shop.deliver_all();
        CHECK(shop.saga_is(key, "compensated"));
        CHECK(shop.saga(key).reason == "expired");
        shop.rewind();
    }
}

TEST_CASE("a service's hooks are called in the step's transaction, and for each failure")
{
    skald::testing::harness shop;
    auto const seen = std::make_shared<std::vector<std::string>>();
    auto hooked = payments();
    hooked.hooks({.before =
                      [seen](skald::step_call const& of, skald::step_context& ctx) {
                          ctx.sql("SET LOCAL application_name = 'hooked'");
                          seen->push_back("before " + std::string{of.step} + " try " + std::to_string(ctx.attempt()));
                      },
                  .after =
                      [seen](skald::step_call const&, skald::step_context& ctx, skald::outcome const& ended) {
                          seen->push_back(ctx.sql("SHOW application_name")[0][0].c_str());
                          CHECK(ended.is_done());
                      },
                  .on_failure = [seen](skald::step_call const&, skald::step_context const&,
                                       std::string_view error) { seen->emplace_back(error); }});
    shop.add(orders()).add(std::move(hooked)).add(shipping());
    give_rows(shop);
    shop.start(place_order, pen(), {.key = "k"});
    shop.deliver_all();
    CHECK(shop.saga_is("k", "completed"));
    CHECK(*seen == std::vector<std::string>{"before charge-payment try 1", "hooked"});

    seen->clear();
    shop.ask("payments", "DROP TABLE charge");
    shop.start(place_order, order{"o-2", "ann", "pen", 1, 100}, {.key = "l"});
    shop.deliver_all();
    REQUIRE(seen->size() == 2);
    CHECK(has(seen->at(1), "relation \"charge\" does not exist"));
}
