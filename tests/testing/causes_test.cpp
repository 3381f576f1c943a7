// What a proof says of why: as it is where it follows from what was seen, and else as what may be; and what to do.
#include "shop.hpp"

#include <doctest/doctest.h>
#include <pqxx/pqxx>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace kit_causes {
using namespace kit_test;

namespace {

constexpr auto pair = skald::define("pair", steps::charge_payment, steps::arrange_shipping);

using code = std::function<void(skald::step_context&)>;

/// Its step and its compensation are the test's.
class told final : public skald::compensatable_step<order>
{
public:
    told(code forward, code back) : forward_{std::move(forward)}, back_{std::move(back)} {}
    skald::outcome execute(skald::step_context& ctx, order&) const override
    {
        forward_(ctx);
        return skald::done();
    }
    void compensate(skald::step_context& ctx, order&) const override { back_(ctx); }

private:
    code forward_, back_;
};

void take(skald::step_context& ctx, int cents)
{
    ctx.sql("UPDATE wallet SET cents = cents - $1", cents);
}

void give_back(skald::step_context& ctx)
{
    take(ctx, -100);
}

std::unique_ptr<skald::testing::harness> shop_of(code forward, code back)
{
    auto shop = std::make_unique<skald::testing::harness>();
    furnish(*shop);
    shop->add(charging_with(pair, told{std::move(forward), std::move(back)})).add(arranging(pair));
    return shop;
}

std::string cause_of(skald::testing::harness& shop, std::string const& only)
{
    auto const proof = shop.prove_exactly_once(pair, pen(), {.only = only});
    INFO(proof.report());
    CHECK_FALSE(proof);
    CHECK(proof.failed_schedule() == only);
    return proof.cause();
}

}  // namespace

TEST_CASE("what is written beside a step that is rolled back is not laid to a compensation, since none ran")
{
    bool is_due = false;
    auto const shop = shop_of(
        [&](skald::step_context& ctx) {
            take(ctx, 100);
            is_due = true;
        },
        give_back);
    // As a thread of the step's own does that goes on after it.
    auto const write = [&] {
        if (std::exchange(is_due, false)) {
            pqxx::connection own{shop->database_url("payments")};
            pqxx::nontransaction{own}.exec("UPDATE wallet SET cents = 1");
        }
        return skald::testing::rows{};
    };
    shop->watch({"thread", [] { return skald::testing::rows{}; }, [&] { is_due = false; }, write});
    auto const cause = cause_of(*shop, "reject charge-payment");
    CHECK(cause.starts_with("look at charge-payment: no compensation ran, nor had any step completed"));
    CHECK(has(cause, "by a thread that goes on after the step has returned"));
}

TEST_CASE("a step that stores its attempt is not said to leave something of one that was rolled back")
{
    auto const shop = shop_of([](skald::step_context& ctx) { take(ctx, 100 * ctx.attempt()); }, give_back);
    CHECK(cause_of(*shop, "fail charge-payment once")
              .starts_with("look at charge-payment: it may be that the step does something else in its second attempt: "
                           "it stores ctx.attempt()"));
}

TEST_CASE("a step or a compensation that never goes well is named, with what to do")
{
    auto const back = shop_of([](skald::step_context& ctx) { take(ctx, 100); },
                              [](skald::step_context&) { throw std::runtime_error{"no way back"}; });
    CHECK(
        cause_of(*back, "reject arrange-shipping")
            .starts_with("the compensation charge-payment.compensate was given up, and the saga is stuck half undone"));
    auto const forward = shop_of([](skald::step_context&) { throw 42; }, give_back);
    CHECK(cause_of(*forward, "forward").starts_with("the step charge-payment rejected, or failed on its last attempt"));
}

}  // namespace kit_causes
