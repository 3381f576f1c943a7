// The order saga: what its steps do, one by one and together, and that each takes effect once. docs/testing.md explains
// each part.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "services.hpp"

#include <skald/testing.hpp>

using namespace order_saga;
using skald::testing::rows;

namespace {

/// All three services. Created once, because creating databases takes longest; reset for each test.
skald::testing::harness& shop()
{
    static skald::testing::harness made;
    static bool const is_furnished = [] {
        made.add(orders)
            .add(payments)
            .add(shipping)
            .given("payments", "INSERT INTO wallet VALUES ('ann', 1000)")
            .given("shipping", "INSERT INTO stock VALUES ('pen', 5)");
        return true;
    }();
    static_cast<void>(is_furnished);
    return made;
}

struct new_day
{
    new_day() { shop().rewind(); }
};

order pens(int quantity = 1)
{
    return {"o-1", "ann", "pen", quantity, quantity * std::int64_t{100}};
}

}  // namespace

TEST_CASE_FIXTURE(new_day, "a charge takes the money, and its compensation gives it back")
{
    auto alone = shop().alone("payments");
    auto o = pens(3);
    CHECK(alone.execute(charge_payment{}, o).is_done());
    CHECK(alone.ask("SELECT cents FROM wallet") == rows{"700"});
    alone.compensate(charge_payment{}, o);
    CHECK(alone.ask("SELECT cents FROM wallet") == rows{"1000"});
}

TEST_CASE_FIXTURE(new_day, "an order that nobody can pay is cancelled")
{
    auto const key = shop().start(place_order, order{"o-1", "ann", "pen", 1, 5000});
    shop().deliver_all();
    CHECK(shop().saga_is(key, "compensated"));
    CHECK(shop().saga(key).reason == "insufficient funds");
    CHECK(shop().ask("orders", "SELECT status FROM customer_order") == rows{"cancelled"});
}

TEST_CASE_FIXTURE(new_day, "an order beyond the stock is paid back")
{
    auto const key = shop().start(place_order, pens(6));
    shop().deliver_all();
    CHECK(shop().saga_is(key, "compensated"));
    CHECK(shop().applied_once(key, "charge-payment.compensate"));
    CHECK(shop().ask("payments", "SELECT cents FROM wallet") == rows{"1000"});
}

TEST_CASE_FIXTURE(new_day, "a charge that dies before COMMIT and comes three times is one charge")
{
    auto const key = shop().start(place_order, pens());
    shop().crash_at(skald::testing::crash_point::before_commit, "charge-payment");
    shop().deliver_next();
    shop().replay(shop().waiting().front(), 2);
    shop().deliver_all();
    CHECK(shop().saga_is(key, "completed"));
    CHECK(shop().applied_once(key, "charge-payment"));
    CHECK(shop().ask("payments", "SELECT cents FROM wallet") == rows{"900"});
}

TEST_CASE("placing an order happens once, whatever is delivered twice, breaks, is refused or dies half-way")
{
    // A cancelled order stays, and a charge with its refund; the money and the stock are as before.
    auto const proof = shop().prove_exactly_once(place_order, pens(),
                                                 {.remains = {{"orders", "customer_order"}, {"payments", "charge"}}});
    CHECK(proof);
    MESSAGE(proof.report());
}
