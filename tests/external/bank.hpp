// A shop whose payments are made by a bank that is not a database of Skald's: an in-memory gateway, whose ledger the
// tests read, and steps whose parts a test may replace.
#pragma once

#include "support/stepped_services.hpp"

#include <skald/skald.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::test {

struct purchase
{
    std::string id;
    int cents{};
    std::string receipt{};
    NLOHMANN_DEFINE_TYPE_INTRUSIVE_WITH_DEFAULT(purchase, id, cents, receipt)
};

struct receipt
{
    std::string number;
    bool is_declined{};
    NLOHMANN_DEFINE_TYPE_INTRUSIVE_WITH_DEFAULT(receipt, number, is_declined)
};

/// What the other side did, and how it behaves.
struct bank
{
    std::vector<std::string> charges;  // the keys, in order
    std::vector<std::string> refunds;
    int looks{};
    bool declines{};
    bool can_tell{true};
    std::string more{};  // that a receipt's number goes on with
    std::mutex mutex{};
    std::function<void(std::string const&key)> before_charge, after_charge;

    receipt charge(std::string const& key)
    {
        if (before_charge) before_charge(key);
        std::unique_lock lock{mutex};
        if (!declines) charges.push_back(key);
        auto const number = charges.size();
        lock.unlock();
        if (after_charge) after_charge(key);
        return {"r-" + std::to_string(number) + more, declines};
    }

    probe<receipt> find(std::string const& key)
    {
        std::lock_guard const lock{mutex};
        ++looks;
        if (!can_tell) return unknown("its list is not up to date");
        for (std::size_t n = 0; n < charges.size(); ++n)
            if (charges[n] == key) return happened(receipt{"r-" + std::to_string(n + 1)});
        return did_not_happen();
    }
};

inline void note(step_context& ctx, std::string const& what)
{
    ctx.sql("INSERT INTO effect VALUES ($1, $2)", ctx.saga_key(), what);
}

class reserve final : public compensatable_step<purchase>
{
    outcome execute(step_context& ctx, purchase&) const override
    {
        note(ctx, "reserve");
        return done();
    }
    void compensate(step_context& ctx, purchase&) const override { note(ctx, "undo reserve"); }
};

class capture final : public external_step<purchase, receipt>
{
public:
    explicit capture(bank& at) : bank_{at} {}
    std::function<outcome(step_context&, purchase&, receipt const&)> settles;

private:
    outcome prepare(step_context& ctx, purchase& p) const override
    {
        if (p.cents < 0) return reject("nothing to pay");
        note(ctx, "prepare");
        return done();
    }
    receipt call(call_context& ctx, purchase const&) const override { return bank_.charge(ctx.key()); }
    probe<receipt> look(call_context& ctx, purchase const&) const override { return bank_.find(ctx.key()); }
    outcome settle(step_context& ctx, purchase& p, receipt const& r) const override
    {
        if (settles) return settles(ctx, p, r);
        if (r.is_declined) return reject("declined");
        p.receipt = r.number;
        note(ctx, "settle " + r.number);
        return done();
    }
    void abandon(step_context& ctx, purchase&) const override { note(ctx, "abandon"); }

    bank& bank_;
};

class refund final : public external_compensation<purchase, receipt>
{
public:
    explicit refund(bank& at) : bank_{at} {}

private:
    receipt call(call_context& ctx, purchase const& p) const override
    {
        bank_.refunds.push_back(ctx.key() + " of " + p.receipt);
        return {};
    }
    probe<receipt> look(call_context&, purchase const&) const override { return did_not_happen(); }
    void settle(step_context& ctx, purchase&, receipt const&) const override { note(ctx, "refunded"); }

    bank& bank_;
};

class ship final : public retriable_step<purchase>
{
    forward_outcome execute(step_context& ctx, purchase& p) const override
    {
        note(ctx, "ship " + p.receipt);
        return done();
    }
};

class check_stock final : public pivot_step<purchase>
{
    outcome execute(step_context& ctx, purchase& p) const override
    {
        if (p.cents > 1000) return reject("out of stock");
        note(ctx, "check");
        return done();
    }
};

namespace steps {
inline constexpr skald::compensatable<purchase> reserve{"reserve", "shop"};
inline constexpr skald::pivot<purchase> capture{"capture", "till"};
inline constexpr skald::compensatable<purchase> charge{"charge", "till"};
inline constexpr skald::pivot<purchase> check{"check", "shop"};
inline constexpr skald::retriable<purchase> ship{"ship", "shop"};
}  // namespace steps

/// Its pivot is a call.
inline constexpr auto buy = define("buy", steps::reserve, steps::capture, steps::ship);
/// A call that can be undone, by another call.
inline constexpr auto order_goods = define("order-goods", steps::charge, steps::check);

class bank_services : public stepped_services
{
public:
    bank_services() : stepped_services{{"shop", "till"}}
    {
        for (auto const* const name : {"shop", "till"}) at(name).db.run("CREATE TABLE effect (key text, what text)");
    }

    /// Hosts both sagas.
    void host(capture charging)
    {
        at("shop").host(buy, steps::reserve, reserve{});
        at("till").host(buy, steps::capture, charging);
        at("shop").host(buy, steps::ship, ship{});
        at("till").host_with(order_goods, steps::charge, charging, refund{gateway});
        at("shop").host(order_goods, steps::check, check_stock{});
    }
    void host() { host(capture{gateway}); }

    /// Until no message moves, and no call is due.
    void run_all()
    {
        do run();
        while (at("till").go_on());
    }

    std::string effects(std::string const& name) { return at(name).db.rows("SELECT what FROM effect"); }

    /// Of the home and, of a step, of the till: "started|1".
    std::string record(std::string const& step)
    {
        return at("till").db.rows("SELECT status, attempts FROM skald.idempotency WHERE step = '" + step + "'");
    }
    std::string started() { return at("till").db.rows("SELECT step, in_doubt, calls FROM skald.started"); }

    bank gateway;
};

}  // namespace skald::test
