// Whether a saga that was compensated has left every table as it was: told by row and column, unless named.
#include "shop.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace kit_test;
using skald::testing::remaining;

namespace {

std::string& undo()
{
    static std::string sql;
    return sql;
}

/// Its compensation does what the test says.
class charging final : public skald::compensatable_step<order>
{
public:
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents - $1", o.cents);
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order&) const override { ctx.tx().exec(undo()); }
};

constexpr auto two = skald::define("two", steps::charge_payment, steps::arrange_shipping);

skald::testing::proof prove(std::string const& sql, std::vector<remaining> remains)
{
    static auto const made = [] {
        auto shop = std::make_unique<skald::testing::harness>();
        furnish(*shop);
        shop->add(
                only_tables("payments", "0002_touched", "ALTER TABLE wallet ADD COLUMN touched int NOT NULL DEFAULT 0"))
            .add(charging_with(two, charging{}))
            .add(arranging(two));
        return shop;
    }();
    undo() = sql;
    return made->prove_exactly_once(two, pen(), {.remains = std::move(remains), .only = "reject arrange-shipping"});
}

constexpr auto too_little = "UPDATE wallet SET cents = cents + 99";
constexpr auto and_touches = "UPDATE wallet SET cents = cents + 100, touched = touched + 1";

}  // namespace

TEST_CASE("a compensation that gives back too little, or nothing, is found without being asked for")
{
    auto const little = prove(too_little, {});
    INFO(little.report());
    CHECK_FALSE(little);
    CHECK(little.failed_schedule() == "reject arrange-shipping");
    CHECK(little.difference() == "  payments: wallet\n    at {\"customer\": \"ann\"}: cents was 1000 and is 999\n");
    CHECK(has(little.report(), "the saga was compensated, and has not left your tables as they were before it"));
    CHECK(has(little.report(), "one did not leave behind what it should: reject arrange-shipping\n"));
    CHECK(little.cause().starts_with("look at charge-payment: it may be that the compensations do not undo all"));
    CHECK(has(little.cause(), ".remains"));
    CHECK(has(prove("SELECT 1", {}).difference(), "cents was 1000 and is 900"));
    CHECK(prove(too_little, {{"payments", "wallet"}}));
}

TEST_CASE("a column that may differ is left out by its name, and no other is")
{
    auto const all = prove(and_touches, {});
    CHECK_FALSE(all);
    CHECK(all.difference() == "  payments: wallet\n    at {\"customer\": \"ann\"}: touched was 0 and is 1\n");
    CHECK(prove(and_touches, {{"payments", "wallet", {"touched"}}}));
    CHECK_FALSE(prove(too_little, {{"payments", "public.wallet", {"touched"}}}));
}

TEST_CASE("a table that has a column named t is compared by all its columns")
{
    skald::testing::harness shop;
    furnish(shop);
    shop.add(only_tables("payments", "0002_ledger", "CREATE TABLE ledger (t text PRIMARY KEY, cents int)"))
        .given("payments", "INSERT INTO ledger VALUES ('ann', 0)")
        .add(charging_with(two, charging{}))
        .add(arranging(two));
    undo() = "UPDATE wallet SET cents = cents + 100; UPDATE ledger SET cents = 1";
    auto const proof = shop.prove_exactly_once(two, pen(), {.only = "reject arrange-shipping"});
    INFO(proof.report());
    CHECK_FALSE(proof);
    CHECK(proof.difference() == "  payments: ledger\n    at {\"t\": \"ann\"}: cents was 0 and is 1\n");
}

TEST_CASE("what the order example leaves behind is told unless it is named")
{
    auto const shop = make_shop();
    auto const proved = [&shop](std::vector<remaining> remains) {
        return shop->prove_exactly_once(place_order, pen(),
                                        {.remains = std::move(remains), .only = "fail arrange-shipping indefinitely"});
    };
    CHECK(proved({{"orders", "customer_order"}, {"payments", "charge"}}));

    auto const orders = proved({{"payments", "charge"}});
    CHECK_FALSE(orders);
    CHECK(orders.difference().starts_with("  orders: customer_order\n    + {"));
    CHECK(has(orders.difference(), "\"status\": \"cancelled\""));

    auto const charges = proved({{"orders", "customer_order"}});
    CHECK_FALSE(charges);
    CHECK(has(charges.difference(), "\"kind\": \"refund\""));  // it has no primary key
    CHECK_FALSE(has(charges.difference(), "    at "));
}

TEST_CASE("a table or column that may remain and is not there is told")
{
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"payments", "purse"}})),
                         "remains: payments: purse: there is no such table", std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"payments", "wallet", {"cents", "pence"}}})),
                         "remains: payments: wallet: there is no such column: pence", std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"office", "wallet"}})),
                         "remains: office: wallet: no step of that service is hosted here", std::invalid_argument);
}
