// What a call hears when it says that it goes on.
#include "external/bank.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>

using namespace std::chrono_literals;
using namespace skald::test;
using skald::testing::wait_until;

namespace {

using in_call = std::function<void(skald::call_context&)>;

/// Calls what the test says, forward and back.
class long_charge final : public skald::external_step<purchase, receipt>
{
public:
    explicit long_charge(in_call does) : does_{std::move(does)} {}

private:
    skald::outcome prepare(skald::step_context&, purchase&) const override { return skald::done(); }
    receipt call(skald::call_context& ctx, purchase const&) const override
    {
        does_(ctx);
        return {"r", false};
    }
    skald::probe<receipt> look(skald::call_context&, purchase const&) const override { return skald::did_not_happen(); }
    skald::outcome settle(skald::step_context&, purchase&, receipt const&) const override { return skald::done(); }

    in_call does_;
};

class long_refund final : public skald::external_compensation<purchase, receipt>
{
public:
    explicit long_refund(in_call does) : does_{std::move(does)} {}

private:
    receipt call(skald::call_context& ctx, purchase const&) const override
    {
        does_(ctx);
        return {"r", false};
    }
    skald::probe<receipt> look(skald::call_context&, purchase const&) const override { return skald::did_not_happen(); }
    void settle(skald::step_context& ctx, purchase&, receipt const&) const override { note(ctx, "refunded"); }

    in_call does_;
};

class long_calls final : public bank_services
{
public:
    /// With a lease so long that no renewal says anything.
    void host_long(
        in_call forward, in_call back = [](auto&) {})
    {
        auto& call = at("till").options_of_steps.call;
        call.lease = call.silence = 1h;
        at("till").host_with(order_goods, steps::charge, long_charge{std::move(forward)}, long_refund{std::move(back)});
        at("shop").host(order_goods, steps::check, check_stock{});
    }

    void control(std::string const& what)
    {
        at("shop").db.run("SELECT skald.request_control('" + what + "', '', 'k')");
        run();
    }
};

/// Whether it would throw.
bool is_ended(skald::call_context& ctx)
try {
    ctx.heartbeat();
    return false;
}
catch (skald::call_stopped const&) {
    return true;
}

}  // namespace

TEST_CASE("a cancel and a pause are heard at the next heartbeat, long before the lease is renewed")
{
    for (std::string const command : {"cancel", "pause"}) {
        long_calls all;
        std::atomic<bool> began{false}, may_go_on{false}, has_heard{false}, has_ended{false};
        all.host_long([&](auto& ctx) {
            began = true;
            if (!wait_until([&] { return may_go_on.load(); })) return;
            has_heard = is_ended(ctx);
            CHECK(ctx.lost());
            has_ended = true;
            throw skald::did_not_happen_error{"stopped"};
        });
        all.start(order_goods, purchase{"p", 20}, "k");
        all.run();
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return began.load(); }));
        all.control(command);
        may_go_on = true;
        REQUIRE(wait_until([&] { return has_ended.load(); }));
        CHECK_MESSAGE(has_heard, command);
        if (command == "cancel") CHECK(wait_until([&] { return all.record("charge").starts_with("cancelled"); }));
    }
}

TEST_CASE("a deadline that passes is heard at the next heartbeat")
{
    long_calls all;
    all.at("till").options_of_steps.retry.deadline = 300ms;
    std::atomic<bool> is_called{false}, has_heard{false};
    all.host_long([&](auto& ctx) {
        is_called = true;
        has_heard = wait_until([&] { return is_ended(ctx); });
        throw skald::did_not_happen_error{"stopped"};
    });
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run();
    running_calls process{all.at("till")};
    REQUIRE(wait_until([&] { return all.record("charge").starts_with("cancelled"); }));
    CHECK(has_heard == is_called);  // on a slow machine it passes before the call
}

TEST_CASE("heartbeats in a tight loop do not ask each time, and those with a checkpoint write each one")
{
    long_calls all;
    std::atomic<bool> is_done{false};
    constexpr int beats = 5'000;
    auto const& db = all.at("till").db;
    all.host_long([&](auto& ctx) {
        auto const version = [&] { return db.one("SELECT xmin FROM skald.started"); };
        auto seen = version();
        ctx.heartbeat();
        CHECK(version() != seen);
        for (int n = 0; n < beats; ++n) ctx.heartbeat();
        for (int n = 0; n < 3; ++n) {
            seen = version();
            ctx.heartbeat(nlohmann::json{{"n", n}});
            CHECK(version() != seen);
        }
        is_done = true;
    });
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run();
    auto const before = std::stol(db.one("SELECT pg_current_xact_id()"));
    {
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return is_done.load(); }));
    }
    // Each heartbeat that asks is a transaction that writes.
    CHECK(std::stol(db.one("SELECT pg_current_xact_id()")) - before < beats / 10);
}

TEST_CASE("a checkpoint that can't be kept is an error of its call, and fails no renewal")
{
    long_calls all;
    std::atomic<bool> is_done{false};
    all.host_long([&](auto& ctx) {
        using nlohmann::json;
        ctx.heartbeat(json{{"page", 7}});
        for (auto const& bad :
             {json(std::string("a\0b", 3)), json("\xff"), json(std::nan("")), json(std::string(1024 * 1024, 'x'))})
            CHECK_THROWS_AS(ctx.heartbeat(bad), skald::data_error);
        ctx.heartbeat();
        CHECK_FALSE(ctx.lost());
        is_done = true;
    });
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run();
    running_calls process{all.at("till")};
    REQUIRE(wait_until([&] { return is_done.load(); }));
    CHECK(wait_until([&] { return all.record("charge").starts_with("completed"); }));
}

TEST_CASE("a refund of a cancelled saga is what the cancel asks for: its heartbeats go on")
{
    long_calls all;
    std::atomic<bool> is_called{false};
    all.host_long([](auto&) {},
                  [&](auto& ctx) {
                      ctx.heartbeat();
                      ctx.heartbeat(nlohmann::json{{"page", 1}});
                      CHECK_FALSE(ctx.lost());
                      is_called = true;
                  });
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run();
    CHECK(all.at("till").go_on());
    all.at("till").relay_due();  // on its way to the pivot
    all.control("cancel");
    REQUIRE(all.started() == "charge.compensate|f|0");
    SUBCASE("in a process")
    {
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return all.record("charge.compensate") == "completed|1"; }));
    }
    SUBCASE("in the kit")
    {
        CHECK(all.at("till").go_on());
        CHECK(all.record("charge.compensate") == "completed|1");
    }
    CHECK(is_called);
    CHECK(all.effects("till") == "refunded");
}
