// A rehearsal of steps that have two transactions, and of one whose saga has ended.
#include "support/rehearsed.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace order_saga;
using nlohmann::json;
using skald::test::every_row;
using skald::test::rehearse;
using skald::test::says;
using skald::test::stepped_shop;

namespace {

struct told
{
    std::string by;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(told, by)

void take_money(skald::step_context& ctx, order const& o)
{
    ctx.sql("UPDATE wallet SET cents = cents - $2 WHERE customer = $1", o.customer, o.cents);
}

class waits final : public skald::wait_step<order, told>
{
    skald::outcome begin(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        return skald::done();
    }
    std::chrono::milliseconds timeout(order const&) const override { return std::chrono::hours{1}; }
    skald::outcome arrived(skald::step_context&, order&, told const&) const override { return skald::done(); }
    skald::outcome timed_out(skald::step_context&, order&) const override { return skald::done(); }
};

class calls final : public skald::external_step<order, told>
{
    skald::outcome prepare(skald::step_context& ctx, order& o) const override
    {
        if (o.cents > 1'000'000) return skald::reject("too much");
        take_money(ctx, o);
        return skald::done();
    }
    told call(skald::call_context&, order const&) const override { throw std::logic_error{"it was called"}; }
    skald::probe<told> look(skald::call_context&, order const&) const override
    {
        throw std::logic_error{"it was asked"};
    }
    skald::outcome settle(skald::step_context&, order&, told const&) const override { return skald::done(); }
};

class gives_back final : public skald::compensation<order>
{
    void compensate(skald::step_context&, order&) const override {}
};

/// Its charge is parked, so that its message is there.
class parked_shop : public stepped_shop
{
public:
    parked_shop()
    {
        auto given_up = skald::test::delivery_of(order_up_to("charge-payment"));
        given_up.given_up = true;
        at("payments").process(given_up);
        run();
    }

    json rehearsed(skald::service& by, std::optional<std::string> data = {})
    {
        auto const before = every_row(at("payments").db);
        auto report = rehearse(by, at("payments").db.url(), "1:charge-payment", "", std::move(data));
        CHECK(every_row(at("payments").db) == before);
        return report;
    }
};

}  // namespace

TEST_CASE("a rehearsal of a step that waits, or calls, is its first transaction, and says what would follow")
{
    parked_shop s;
    skald::service with_wait{"payments"}, with_call{"payments"};
    with_wait.host(place_order, steps::charge_payment, waits{});
    with_call.host(place_order, steps::charge_payment, calls{}, gives_back{});
    for (auto* const by : {&with_wait, &with_call}) {
        auto const report = s.rehearsed(*by);
        INFO(report.dump(2));
        CHECK(report["ends"] == "started");
        CHECK(report["then"] == (by == &with_wait ? "wait" : "call"));
        CHECK_FALSE(report.contains("saga"));
        CHECK(skald::test::table_of(report, "public.wallet")["updated"] == 1);
        CHECK(skald::test::table_of(report, "skald.started")["inserted"] == 1);
        auto const words = skald::rehearsal::in_words(report);
        auto const what = report["then"].get<std::string>();
        CHECK(words.find("and it would go on with its " + what + "\n") != std::string::npos);
    }
    auto const refused =
        s.rehearsed(with_call, R"({"id":"1","customer":"ada","sku":"tea","quantity":1,"cents":2000000})");
    CHECK(refused["ends"] == "rejected");
    CHECK(refused["saga"] == "compensating");
}

TEST_CASE("a step that has begun and not ended is not rehearsed, and the refusal says where it is shown")
{
    parked_shop s;
    s.at("payments").db.run("UPDATE skald.idempotency SET status = 'started' WHERE step = 'charge-payment'");
    skald::service with_call{"payments"};
    with_call.host(place_order, steps::charge_payment, calls{}, gives_back{});
    CHECK_THROWS_WITH_AS(s.rehearsed(with_call), doctest::Contains("`skald started list --key 1`"),
                         skald::configuration_error);
}

TEST_CASE("a rehearsal of a step whose saga has ended says so, and not what would become of the saga")
{
    stepped_shop s;
    s.order("1");
    s.run();
    REQUIRE(s.saga_status("1") == "completed");
    skald::service orders{"orders"};
    orders.host(place_order, steps::confirm_order, confirm_order{});
    auto const report = rehearse(orders, s.at("orders").db.url(), "1:confirm-order", "",
                                 R"({"id":"1","customer":"ada","sku":"tea","quantity":1,"cents":1200})");
    INFO(report.dump(2));
    CHECK_FALSE(report.contains("saga"));
    CHECK(says(report["notes"].dump(), "the saga has ended: it is completed since "));
}

TEST_CASE("the compensation of a step that has begun and not ended is not rehearsed either")
{
    parked_shop s;
    auto const& db = s.at("payments").db;
    db.run("UPDATE skald.idempotency SET status = 'unknown', key = 'order 1' WHERE step = 'charge-payment'");
    skald::service with_call{"payments"};
    with_call.host(place_order, steps::charge_payment, calls{}, gives_back{});
    for (auto const* const part : {"order 1:charge-payment has begun since", "`skald started list --key 'order 1'`"})
        CHECK_THROWS_WITH_AS(rehearse(with_call, db.url(), "order 1:charge-payment.compensate", "",
                                      R"({"id":"1","customer":"ada","sku":"tea","quantity":1,"cents":12})"),
                             doctest::Contains(part), skald::configuration_error);
}
