// A saga that can't end by itself is closed by an operator, and nothing of it runs any more.
#include "admin/commands.hpp"
#include "admin/saga_view.hpp"
#include "support/orders.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using skald::test::stepped_shop;

namespace {

class closing_shop : public stepped_shop
{
public:
    /// The refusal, or nothing.
    std::string close(std::string const& as_status, std::string const& reason)
    {
        skald::postgres::connection c{{.url = at("orders").db.url()}};
        auto const done = skald::admin::close(c, as_status, {"", {"", "1"}, reason, "eve"});
        return done.contains("refused") ? done["refused"].get<std::string>() : "";
    }

    void pause() { CHECK(give("pause").empty()); }
    std::string give(std::string const& action) { return skald::test::give_order(at("orders").db.url(), action); }

    std::string explanation() { return skald::test::explanation_of(at("orders").db.url()); }

    void pass_a_month()
    {
        std::string const by = " - interval '31 days'";
        for (auto const* name : {"orders", "payments", "shipping"})
            at(name).db.run("UPDATE skald.idempotency SET created_at = created_at" + by + ", updated_at = updated_at" +
                            by + "; UPDATE skald.control SET requested_at = requested_at" + by +
                            "; UPDATE skald.saga SET created_at = created_at" + by + ", finished_at = finished_at" +
                            by);
    }

    /// After purges at all services: whether nothing of the saga is left.
    bool is_forgotten()
    {
        std::string left;
        for (int round = 0; round < 3; ++round)
            for (auto const* name : {"orders", "payments", "shipping"}) {
                at(name).db.run("SELECT skald.purge('30 days', 500)");
                run();
            }
        for (auto const* name : {"orders", "payments", "shipping"})
            left +=
                at(name).db.one("SELECT (SELECT count(*) FROM skald.idempotency) + (SELECT count(*) FROM skald.saga) + "
                                "(SELECT count(*) FROM skald.progress) + (SELECT count(*) FROM skald.control)");
        return left == "000";
    }

    /// Saga "1", whose charge has been sent and is nowhere any more.
    void lose_the_charge()
    {
        order("1");
        at("orders").relay_due();
        at("orders").process_one();
        at("orders").db.run("DELETE FROM skald.outbox WHERE type = 'charge-payment'");
    }
};

}  // namespace

TEST_CASE("a saga whose message is lost is shown as waiting, a cancel meets no step, and an operator can close it")
{
    closing_shop s;
    s.lose_the_charge();
    s.run();
    CHECK(s.explanation().find("lost") == std::string::npos);
    s.at("orders").db.run("UPDATE skald.saga SET created_at = created_at - interval '11 min'");
    s.at("orders").db.run("UPDATE skald.idempotency SET updated_at = updated_at - interval '11 min'");
    CHECK(s.explanation().find("waiting for payments to take charge-payment since ") != std::string::npos);
    CHECK(s.explanation().find("(11 min ago). Does a process of payments run?") != std::string::npos);
    CHECK(s.explanation().find("If it logs step.hanging") != std::string::npos);
    CHECK(s.give("cancel").empty());
    s.run();
    CHECK(s.saga_status("1") == "running");

    CHECK(s.close("compensated", "") == "give a reason: it is kept with the saga");
    CHECK(s.close("compensated", "the queue was purged; order deleted by hand").empty());
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.explanation().find("closed by an operator (eve as ") != std::string::npos);
    CHECK(s.explanation().find(": the queue was purged; order deleted by hand.") != std::string::npos);
    CHECK(s.close("completed", "again") == "saga 1 has ended: it is compensated");
    CHECK(s.at("orders").db.rows("SELECT verb FROM skald.audit ORDER BY id") == "saga cancel\nsaga close");
}

TEST_CASE("where a step's record is gone when it is to be undone, its saga says so until an operator has looked")
{
    closing_shop s;
    s.at("shipping").db.run("UPDATE stock SET free = 0");
    s.order("1");
    std::string gone, fixed;
    SUBCASE("in another service")
    {
        gone = "payments";
        fixed = "UPDATE skald.progress SET error = 'refunded by hand' WHERE step = 'charge-payment.compensate'";
    }
    SUBCASE("in the home itself")
    {
        gone = "orders";
        fixed = "UPDATE skald.idempotency SET error = 'deleted by hand' WHERE step = 'create-order.compensate'";
    }
    s.at(gone).db.run("CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS "
                      "$$ BEGIN DELETE FROM skald.idempotency WHERE step = left(NEW.step, -11); RETURN NEW; END $$;"
                      "CREATE TRIGGER lose BEFORE INSERT ON skald.idempotency FOR EACH ROW WHEN (NEW.step LIKE "
                      "'%.compensate') EXECUTE FUNCTION lose()");
    s.run();
    s.at(gone).db.run("DROP TRIGGER lose ON skald.idempotency; DROP FUNCTION lose()");
    CHECK(s.saga_status("1") == "compensated");
    auto const step = std::string{gone == "orders" ? "create-order" : "charge-payment"};
    auto const lost = "But " + step + " completed at " + gone + ", and its compensation found no record of it";
    CHECK_MESSAGE(s.explanation().find(lost) != std::string::npos, s.explanation());
    CHECK(s.explanation().find("What else had run was undone.") != std::string::npos);
    s.at("orders").db.run(fixed);
    CHECK_MESSAGE(s.explanation().find("But ") == std::string::npos, s.explanation());
}

TEST_CASE("what turns up of a saga that was closed is parked, in whatever service, does nothing, and is told at home")
{
    closing_shop s;
    s.order("1");
    s.at("orders").relay_due();
    std::string where = "orders";
    SUBCASE("the message of a step") {}
    SUBCASE("that of a compensation")
    {
        where = "payments";
        s.at("shipping").db.run("UPDATE stock SET free = 0");
        for (auto const* service : {"orders", "payments", "shipping"}) {
            s.at(service).process_one();
            s.at(service).relay_due();
        }
    }
    auto const before = s.effects();
    CHECK(s.close("completed", "done by hand").find("pause it, check that each service has that command") !=
          std::string::npos);
    CHECK(s.saga_status("1") != "completed");
    s.pause();
    CHECK(s.close("completed", "done by hand").empty());
    // The order arrives before what was under way.
    s.at("orders").relay_due();
    for (auto const* service : {"payments", "shipping"})
        for (auto const& sent : s.transport().captured())
            if (sent.type == "skald.control" && sent.destination == service)
                s.at(service).process(skald::test::delivery_of(sent));
    s.run();
    CHECK(s.effects() == before);
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.parked() == where + "|closed|1");
    CHECK_MESSAGE(s.explanation().find(" turned up at " + where + ", and is parked there.") != std::string::npos,
                  s.explanation());

    // Nothing circles, and when somebody has dropped it, nothing is left.
    s.pass_a_month();
    CHECK_FALSE(s.is_forgotten());
    CHECK(s.at(where).db.one("SELECT skald.drop_parked(id, 'refunded by hand') IS NULL FROM skald.parked") == "t");
    CHECK(s.is_forgotten());
}

TEST_CASE(
    "a step that was to be tried again is cancelled where its saga is closed, and its record is forgotten in time")
{
    closing_shop s;
    s.order_up_to("charge-payment");
    s.at("payments").db.run("ALTER TABLE charge ADD CONSTRAINT never CHECK (false) NOT VALID");
    s.at("payments").process_one();
    REQUIRE(s.at("payments").db.one("SELECT status FROM skald.idempotency WHERE step = 'charge-payment'") ==
            "retrying");
    s.at("payments").db.run("ALTER TABLE charge DROP CONSTRAINT never");
    s.pause();
    CHECK(s.close("compensated", "by hand").empty());
    s.at("orders").relay_due();
    for (auto const& sent : s.transport().captured())
        if (sent.type == "skald.control" && sent.destination == "payments")
            s.at("payments").process(skald::test::delivery_of(sent));
    CHECK(s.at("payments").db.one("SELECT status FROM skald.idempotency WHERE step = 'charge-payment'") == "cancelled");
    s.run();
    CHECK(s.at("payments").db.one("SELECT count(*) FROM charge") == "0");
    CHECK(s.saga_status("1") == "compensated");
    CHECK(s.parked().empty());
    s.pass_a_month();
    CHECK(s.is_forgotten());
}

TEST_CASE("a step that a service took before it had the order is told of a saga that was closed")
{
    closing_shop s;
    s.order_up_to("charge-payment");
    s.pause();
    CHECK(s.close("compensated", "thought lost").empty());
    CHECK(s.explanation().find("Since then") == std::string::npos);
    s.run();
    CHECK(s.saga_status("1") == "compensated");
    CHECK_MESSAGE(s.explanation().find("Since then charge-payment ran at payments: check what it did.") !=
                      std::string::npos,
                  s.explanation());
}
