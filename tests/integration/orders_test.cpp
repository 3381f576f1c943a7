// An operator's orders: cancel, pause, resume and retry of one saga across services.
#include "support/kit_shop.hpp"
#include "support/orders.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

std::pair<std::string, std::string> const first_steps[]{
    {"orders", "create-order"}, {"payments", "charge-payment"}, {"shipping", "arrange-shipping"}};

class ordered_shop : public kit_shop
{
public:
    /// The refusal, or nothing.
    std::string give(std::string const& action, std::string const& reason = "", std::string const& key = "1")
    {
        return give_order(kit().database_url("orders"), action, reason, key);
    }
    std::string explanation() { return explanation_of(kit().database_url("orders")); }

    std::string audit(std::string const& service)
    {
        return rows(service, "SELECT verb, detail->>'effect' FROM skald.audit ORDER BY id");
    }

    /// Order 1, whose next delivery is that of `step`.
    void begin(std::string const& step = "create-order", int quantity = 1)
    {
        order("1", quantity);
        deliver_up_to(step);
    }

    /// Makes a step that writes to `table` break, or work again.
    void break_table(std::string const& service, std::string const& table)
    {
        kit().ask(service, "ALTER TABLE " + table + " RENAME TO broken_" + table);
    }
    void mend_table(std::string const& service, std::string const& table)
    {
        kit().ask(service, "ALTER TABLE broken_" + table + " RENAME TO " + table);
    }
};

}  // namespace

TEST_CASE("a cancel before the pivot undoes what has run, in three services, and the saga says why")
{
    ordered_shop s;
    s.begin("arrange-shipping");
    CHECK(s.give("cancel", "the customer called").empty());
    CHECK(s.kit().deliver("control@shipping"));
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.kit().saga("1").reason == "the customer called");
    for (auto const* service : {"orders", "payments", "shipping"}) CHECK(s.audit(service) == "saga cancel|taken");
    CHECK(s.rows("shipping", "SELECT actor FROM skald.audit").starts_with("eve as "));
    CHECK(s.nothing_is_parked());
    CHECK(s.explanation().find("compensated at ") == 0);
}

TEST_CASE("a cancel meets the saga at whatever step it waits, and only what ran is undone")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("cancel").empty());
    s.kit().deliver_all();
    CHECK(s.effects() == " / 1000  / 5 ");
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.kit().saga("1").reason.starts_with("cancelled by eve as "));
}

TEST_CASE("a cancel behind the pivot is refused with the reason, and nothing is written")
{
    ordered_shop s;
    s.begin("confirm-order");
    CHECK(s.kit().deliver("arrange-shipping.progress"));
    CHECK(s.give("cancel").find("past the pivot: arrange-shipping completed at ") != std::string::npos);
    CHECK(s.audit("orders").empty());
    CHECK(s.rows("orders", "SELECT * FROM skald.control").empty());
    s.kit().deliver_all();
    CHECK(s.effects() == completed);
    CHECK(s.give("cancel").find("has ended: it is completed") != std::string::npos);
}

TEST_CASE("a cancel that lost the race with the pivot changes nothing, and the saga says that it came too late")
{
    ordered_shop s;
    s.begin("arrange-shipping");
    CHECK(s.give("cancel", "too slow").empty());
    CHECK(s.kit().deliver("arrange-shipping"));  // the pivot, before the order arrives
    s.kit().deliver_all();
    CHECK(s.effects() == completed);
    CHECK(s.kit().saga_is("1", "completed"));
    CHECK(s.explanation().find("too late: arrange-shipping, the pivot, completed before it was there") !=
          std::string::npos);
}

TEST_CASE("a pause stops a saga between steps in whatever service, and a resume lets it go on at once")
{
    for (auto const& [service, step] : first_steps) {
        CAPTURE(service);
        ordered_shop s;
        s.begin(step);
        CHECK(s.give("pause", "looking").empty());
        if (service != "orders") CHECK(s.kit().deliver("control@" + service));
        s.kit().deliver_all();
        auto const before = s.effects();
        CHECK(s.kit().saga_is("1", "running"));
        CHECK(s.explanation().find("It is paused by eve as ") != std::string::npos);
        s.kit().advance(1h);
        s.kit().deliver_all();
        CHECK(s.effects() == before);
        // Without a word to the clock: what waits is woken.
        CHECK(s.give("resume").empty());
        s.kit().deliver_all();
        CHECK(s.effects() == completed);
        CHECK(s.kit().saga_is("1", "completed"));
    }
}

TEST_CASE("a pause that arrives after the resume that followed it is ignored")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("pause").empty());
    CHECK(s.give("resume").empty());
    auto const sent = s.kit().ask("orders", "SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE "
                                            "destination = 'payments' AND type = 'skald.control' ORDER BY id DESC");
    REQUIRE(sent.size() == 2);
    CHECK(s.rows("payments", "SELECT skald.take_control($o$" + sent[0] + "$o$)") == "taken");
    CHECK(s.rows("payments", "SELECT skald.take_control($o$" + sent[1] + "$o$)") == "outdated");
    CHECK(s.rows("payments", "SELECT action FROM skald.control") == "resume");
    s.kit().deliver_all();
    CHECK(s.effects() == completed);
}

TEST_CASE("of two orders at the same instant of a clock that was put back, the later one counts")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("pause").empty());
    s.kit().ask("orders", "UPDATE skald.control SET requested_at = clock_timestamp() + interval '1 hour'");
    CHECK(s.give("resume").empty());
    CHECK(s.rows("orders", "SELECT action FROM skald.control") == "resume");
}

TEST_CASE("a cancel takes the place of a pause, and can't be undone by one")
{
    ordered_shop s;
    s.begin("charge-payment");
    CHECK(s.give("pause").empty());
    CHECK(s.kit().deliver("control@payments"));
    CHECK(s.give("cancel", "enough").empty());
    CHECK(s.give("pause").find("was cancelled at ") != std::string::npos);
    CHECK(s.give("resume").find("was cancelled at ") != std::string::npos);
    s.kit().deliver_all();
    CHECK(s.effects() == not_charged);
    CHECK(s.kit().saga_is("1", "compensated"));
}

TEST_CASE("orders that can't be given say why")
{
    ordered_shop s;
    s.begin();
    CHECK(s.give("cancel", "", "no-such").find("no saga no-such was started here") != std::string::npos);
    CHECK(s.give("resume").find("is not paused: it is running") != std::string::npos);
    CHECK(s.give("retry").find("no step of saga 1 is parked: it is running") != std::string::npos);
    CHECK(s.give("cancel", std::string(4001, 'r')).find("the reason has 4001 bytes, of at most 4000") == 0);
    CHECK(s.rows("orders", "SELECT skald.request_control('pause', '', '1', '', repeat('e', 4000))->>'refused' LIKE "
                           "'the name of who asks has % bytes%'") == "t");
    CHECK(s.rows("orders", "SELECT skald.close_saga('completed', '', '1', repeat('r', 3990))->>'refused' LIKE "
                           "'the reason has 40%'") == "t");
    s.order("2", 6);
    s.kit().deliver_all();
    CHECK(s.give("pause", "", "2").find("has ended: it is compensated") != std::string::npos);
    CHECK(s.audit("orders").empty());
}

TEST_CASE("a reason of the greatest length is taken by every service")
{
    ordered_shop s;
    s.begin("charge-payment");
    CHECK(s.give("cancel", std::string(4000, 'r')).empty());
    s.kit().deliver_all();
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.nothing_is_parked());
    CHECK(s.audit("shipping") == "saga cancel|taken");
}

TEST_CASE("a saga of a key that is there in another scope only is said to be there")
{
    ordered_shop s;
    s.kit().ask(
        "orders",
        "SELECT skald.start(scope, '7', 'place-order', 1, '{}', 'forward 1/1 ship@shipping=pivot', sha256('x'), "
        "'shipping', 'skald.step', '', '{}') FROM unnest(array['b', 'a']) AS scope");
    auto const refused = s.give("cancel", "", "7");
    CHECK_MESSAGE(refused.ends_with(": the sagas of that key here have the scope 'a' or 'b'"), refused);
}

TEST_CASE("a saga that is compensating already is not cancelled a second time")
{
    ordered_shop s;
    s.begin("charge-payment.compensate", 6);
    s.break_table("payments", "charge");
    s.kit().deliver_all();
    CHECK(s.kit().saga_is("1", "stuck"));
    CHECK(s.give("cancel").find("is compensating already: out of stock") != std::string::npos);
}

TEST_CASE("a retry puts the compensation that is parked elsewhere back, with attempts counted from scratch")
{
    ordered_shop s;
    s.begin("charge-payment.compensate", 6);
    s.break_table("payments", "charge");
    s.kit().deliver_all();
    REQUIRE(s.kit().saga_is("1", "stuck"));
    CHECK(s.rows("payments", "SELECT reason FROM skald.parked") == "attempts_exhausted");
    CHECK(s.explanation().find("stuck: charge-payment.compensate was parked at payments after 3 attempts, ") == 0);
    CHECK(s.explanation().find("`skald saga retry 1`") != std::string::npos);

    CHECK(s.give("retry").empty());
    CHECK(s.kit().deliver("control@payments"));
    auto const order = s.kit().sent().back();
    REQUIRE(order.name == "control@payments");
    CHECK(s.nothing_is_parked());
    s.kit().deliver_all();
    CHECK_MESSAGE(s.rows("payments", "SELECT status, attempts, snoozes FROM skald.idempotency WHERE step = "
                                     "'charge-payment.compensate'") == "parked|3|3",
                  "three attempts more, and parked again");
    s.kit().replay(order);
    s.kit().deliver_all();
    CHECK_MESSAGE(s.kit().saga_is("1", "stuck"), "the same order again is not another retry");

    s.mend_table("payments", "charge");
    CHECK(s.give("retry").empty());
    while (s.kit().saga_is("1", "stuck")) REQUIRE(s.kit().deliver_next());
    CHECK(s.kit().saga_is("1", "compensating"));
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.kit().saga("1").reason == "out of stock");
    CHECK(s.give("retry").find("has ended") != std::string::npos);
}

TEST_CASE("a retry at the home goes on where the saga was stuck")
{
    ordered_shop s;
    s.begin("arrange-shipping");
    s.break_table("orders", "customer_order");
    s.kit().deliver_all();
    REQUIRE(s.kit().saga_is("1", "stuck"));
    CHECK(s.explanation().find("stuck: confirm-order was parked at orders") == 0);
    CHECK(s.give("cancel").find("past the pivot") != std::string::npos);
    s.mend_table("orders", "customer_order");
    CHECK(s.give("retry").empty());
    CHECK(s.kit().saga_is("1", "running"));
    s.kit().deliver_all();
    CHECK(s.effects() == completed);
    CHECK(s.audit("orders") == "saga retry|taken");
}
