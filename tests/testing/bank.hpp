// A shop with a bank, for tests of the kit: the bank is another system, in memory, whose ledger the tests read; its
// steps are external, and one step waits for a person.
#pragma once

#include <skald/skald.hpp>
#include <skald/testing.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kit_bank {

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
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(receipt, number)
};

struct approval
{
    std::string by;
    bool yes{};
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(approval, by, yes)
};

/// What the bank did, in order: "charge k:capture". It does not know its keys again: a second request is a second
/// charge.
struct bank
{
    std::vector<std::string> did;
    bool can_tell{true};
    int cents{};  // that it has: of charges, less refunds

    receipt act(std::string const& what, int takes = 0)
    {
        did.push_back(what);
        cents += takes;
        return {what};
    }

    skald::probe<receipt> find(std::string const& what) const
    {
        if (!can_tell) return skald::unknown("its list is not up to date");
        for (auto const& one : did)
            if (one == what) return skald::happened(receipt{what});
        return skald::did_not_happen();
    }
};

inline void note(skald::step_context& ctx, std::string const& what)
{
    ctx.sql("INSERT INTO effect VALUES ($1)", what);
}

/// Right; the mistakes override what they get wrong.
class charge : public skald::external_step<purchase, receipt>
{
public:
    explicit charge(std::shared_ptr<bank> at) : bank_{std::move(at)} {}

    skald::outcome prepare(skald::step_context& ctx, purchase&) const override
    {
        note(ctx, "intent");
        return skald::done();
    }
    receipt call(skald::call_context& ctx, purchase const& p) const override
    {
        return at().act("charge " + ctx.key(), p.cents);
    }
    skald::probe<receipt> look(skald::call_context& ctx, purchase const&) const override
    {
        return at().find("charge " + ctx.key());
    }
    skald::outcome settle(skald::step_context& ctx, purchase& p, receipt const& r) const override
    {
        p.receipt = r.number;
        note(ctx, "receipt");
        return skald::done();
    }
    void abandon(skald::step_context& ctx, purchase&) const override { ctx.sql("DELETE FROM effect"); }

protected:
    bank& at() const { return *bank_; }

private:
    std::shared_ptr<bank> bank_;
};

class refund : public skald::external_compensation<purchase, receipt>
{
public:
    explicit refund(std::shared_ptr<bank> at) : bank_{std::move(at)} {}

    receipt call(skald::call_context& ctx, purchase const& p) const override
    {
        return at().act("refund " + ctx.key(), -p.cents);
    }
    skald::probe<receipt> look(skald::call_context& ctx, purchase const&) const override
    {
        return at().find("refund " + ctx.key());
    }
    void settle(skald::step_context& ctx, purchase&, receipt const&) const override { ctx.sql("DELETE FROM effect"); }

protected:
    bank& at() const { return *bank_; }

private:
    std::shared_ptr<bank> bank_;
};

class approve : public skald::wait_step<purchase, approval>
{
public:
    skald::outcome begin(skald::step_context& ctx, purchase&) const override
    {
        note(ctx, "asked");
        return skald::done();
    }
    std::chrono::milliseconds timeout(purchase const&) const override { return std::chrono::hours{1}; }
    skald::outcome arrived(skald::step_context& ctx, purchase&, approval const& a) const override
    {
        if (!a.yes) return skald::reject("not approved by " + a.by);
        note(ctx, "approved");
        return skald::done();
    }
    skald::outcome timed_out(skald::step_context&, purchase&) const override
    {
        return skald::reject("nobody answered");
    }
    void abandon(skald::step_context& ctx, purchase&) const override { ctx.sql("DELETE FROM effect"); }
};

class cool_off : public skald::sleep_step<purchase>
{
public:
    explicit cool_off(std::chrono::sys_time<std::chrono::milliseconds> until) : until_{until} {}
    std::chrono::sys_time<std::chrono::milliseconds> until(purchase const&) const override { return until_; }

private:
    std::chrono::sys_time<std::chrono::milliseconds> until_;
};

namespace bank_steps {
inline constexpr skald::compensatable<purchase> charge{"charge", "till"};
inline constexpr skald::pivot<purchase> approve{"approve", "desk"};
inline constexpr skald::retriable<purchase> cool_off{"cool-off", "desk"};
}  // namespace bank_steps

inline skald::service furnished(std::string name)
{
    skald::service s{std::move(name)};
    s.migrate("0001_effect", "CREATE TABLE effect (what text)");
    return s;
}

inline bool has(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

}  // namespace kit_bank
