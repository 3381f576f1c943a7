// The order saga as its users see it: the way forward, the way back, and every delivery again.
#include "support/kit_shop.hpp"

#include <doctest/doctest.h>

using namespace skald::test;

TEST_CASE("an order goes through all services and every step happens once")
{
    kit_shop s;
    s.order("1");
    s.kit().deliver_all();
    CHECK(s.effects() == completed);
    CHECK(s.kit().saga_is("1", "completed"));
    CHECK(s.kit().saga("1").reason.empty());
    CHECK(s.nothing_is_parked());
}

TEST_CASE("out of stock: the charge is refunded and the order cancelled, in reverse order")
{
    kit_shop s;
    s.order("1", 6);
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.kit().saga("1").reason == "out of stock");
    auto const refund =
        s.rows("payments", "SELECT created_at FROM skald.idempotency WHERE step = 'charge-payment.compensate'");
    CHECK(s.rows("orders", "SELECT created_at > '" + refund +
                               "' FROM skald.idempotency WHERE step = 'create-order.compensate'") == "t");
}

TEST_CASE("insufficient funds: the order is cancelled and nothing else happened")
{
    kit_shop s;
    s.order("1", 1, 5000);
    s.kit().deliver_all();
    CHECK(s.effects() == not_charged);
    CHECK(s.kit().saga_is("1", "compensated"));
}

TEST_CASE("every delivery of a saga again, after its end, changes nothing")
{
    kit_shop s;
    s.order("1");
    s.order("2", 6);
    s.kit().deliver_all();
    auto const before = s.effects();
    for (auto const& m : s.kit().sent()) s.kit().replay(m);
    CHECK(s.kit().deliver_all() == s.kit().sent().size());
    CHECK(s.effects() == before);
    CHECK(s.nothing_is_parked());
    CHECK(s.kit().saga_is("1", "completed"));
    CHECK(s.kit().saga_is("2", "compensated"));
}

TEST_CASE("every delivery twice in a row changes nothing")
{
    kit_shop s;
    s.order("1");
    std::size_t seen = 0;
    do {
        s.kit().waiting();
        for (auto const sent = s.kit().sent(); seen < sent.size(); ++seen) s.kit().replay(sent[seen]);
    } while (s.kit().deliver_next());
    CHECK(seen > 4);
    CHECK(s.effects() == completed);
    CHECK(s.kit().saga_is("1", "completed"));
}

TEST_CASE("a paused saga waits, and goes on when it may")
{
    kit_shop s;
    s.kit().ask("payments", "INSERT INTO skald.control (scope, key, home, action) VALUES ('', '1', 'orders', 'pause')");
    s.order("1");
    s.kit().deliver_all();
    CHECK(s.effects() == "o-1|pending / 1000  / 5 ");
    CHECK(s.rows("payments", "SELECT count(*) FROM skald.outbox") == "1");
    s.kit().ask("payments", "DELETE FROM skald.control");
    s.kit().run_to_the_end();
    CHECK(s.effects() == completed);
}

TEST_CASE("S5: a cancelled saga walks back from where the cancel met it")
{
    kit_shop s;
    s.order("1");
    s.deliver_up_to("arrange-shipping");
    s.kit().ask("shipping",
                "INSERT INTO skald.control (scope, key, home, action) VALUES ('', '1', 'orders', 'cancel')");
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.rows("shipping", "SELECT status FROM skald.idempotency") == "cancelled");
}
