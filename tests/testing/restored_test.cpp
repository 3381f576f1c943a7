// Whether a saga that was compensated has left tables as they were: asked for by name, told by row and column.
#include "shop.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace kit_test;
using skald::testing::restored_table;

namespace {

/// Its compensation does what the test says.
class charging final : public skald::compensatable_step<order>
{
public:
    explicit charging(std::string undo) : undo_{std::move(undo)} {}

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents - $1", o.cents);
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order&) const override { ctx.tx().exec(undo_); }

private:
    std::string undo_;
};

constexpr auto two = skald::define("two", steps::charge_payment, steps::arrange_shipping);

skald::testing::proof prove(std::string const& undo, std::vector<restored_table> restored)
{
    skald::testing::harness shop;
    furnish(shop);
    shop.add(only_tables("payments", "0002_touched", "ALTER TABLE wallet ADD COLUMN touched int NOT NULL DEFAULT 0"))
        .add(charging_with(two, charging{undo}))
        .add(arranging(two));
    return shop.prove_exactly_once(two, pen(), {.restored = std::move(restored), .only = "reject arrange-shipping"});
}

constexpr auto too_little = "UPDATE wallet SET cents = cents + 99";
constexpr auto and_touches = "UPDATE wallet SET cents = cents + 100, touched = touched + 1";

}  // namespace

TEST_CASE("a compensation that gives back too little passes unless it is asked what it restores")
{
    CHECK(prove(too_little, {}));
    auto const asked = prove(too_little, {{"payments", "wallet"}});
    INFO(asked.report());
    CHECK_FALSE(asked);
    CHECK(asked.failed_schedule() == "reject arrange-shipping");
    CHECK(asked.difference() == "  payments: wallet\n    at {\"customer\": \"ann\"}: cents was 1000 and is 999\n");
    CHECK(asked.report().find("the saga was compensated, and has not left your tables as they were before it") !=
          std::string::npos);
}

TEST_CASE("a column that may differ is left out by its name, and no other is")
{
    auto const all = prove(and_touches, {{"payments", "wallet"}});
    CHECK_FALSE(all);
    CHECK(all.difference() == "  payments: wallet\n    at {\"customer\": \"ann\"}: touched was 0 and is 1\n");
    CHECK(prove(and_touches, {{"payments", "wallet", {"touched"}}}));
    CHECK_FALSE(prove(too_little, {{"payments", "public.wallet", {"touched"}}}));
}

TEST_CASE("the order example restores what is had and what is there, and says so of what it does not")
{
    auto const shop = make_shop();
    auto const had = shop->prove_exactly_once(
        place_order, pen(),
        {.restored = {{"payments", "wallet"}, {"shipping", "stock"}}, .only = "fail arrange-shipping indefinitely"});
    INFO(had.report());
    CHECK(had);

    auto const orders = shop->prove_exactly_once(place_order, pen(), {.restored = {{"orders", "customer_order"}}});
    CHECK_FALSE(orders);
    CHECK(orders.difference().starts_with("  orders: customer_order\n    + {"));
    CHECK(orders.difference().find("\"status\": \"cancelled\"") != std::string::npos);

    auto const charges = shop->prove_exactly_once(place_order, pen(), {.restored = {{"payments", "charge"}}});
    CHECK_FALSE(charges);
    CHECK(charges.difference().find("\"kind\": \"refund\"") != std::string::npos);  // it has no primary key
    CHECK(charges.difference().find("    at ") == std::string::npos);
}

TEST_CASE("a table or column that is to be restored and is not there is told")
{
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"payments", "purse"}})),
                         "restored: payments: purse: there is no such table", std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"payments", "wallet", {"cents", "pence"}}})),
                         "restored: payments: wallet: there is no such column: pence", std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(prove(too_little, {{"office", "wallet"}})),
                         "restored: office: wallet: no step of that service is hosted here", std::invalid_argument);
}
