// The proof of a saga with external steps and waits: right ones pass, and each mistake is named.
#include "bank.hpp"

#include <doctest/doctest.h>
#include <pqxx/pqxx>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kit_bank {
namespace {

namespace steps {
constexpr skald::compensatable<purchase> charge{"charge", "till"};
constexpr skald::pivot<purchase> approve{"approve", "desk"};
}  // namespace steps

// The same definition for each mistake, under a name of its own.
consteval auto named(std::string_view name)
{
    return skald::define(name, steps::charge, steps::approve);
}

std::shared_ptr<bank> const& gateway()
{
    static auto const made = std::make_shared<bank>();
    return made;
}

void clear()
{
    gateway()->did.clear();
    gateway()->cents = 0;
}

skald::testing::harness& shop()
{
    static skald::testing::harness made;
    static bool const furnished_once = [] {
        made.add(furnished("till")).add(furnished("desk"));
        made.watch({"bank", [] { return gateway()->did; }, clear,
                    [] { return skald::testing::rows{std::to_string(gateway()->cents) + " cents"}; }});
        return true;
    }();
    static_cast<void>(furnished_once);
    return made;
}

template <class Definition, class Charge, class Refund = refund>
void host(Definition const& saga, Charge charging, Refund refunding = refund{gateway()})
{
    skald::service till{"till"}, desk{"desk"};
    till.host(saga, steps::charge, std::move(charging), std::move(refunding));
    desk.host(saga, steps::approve, approve{});
    shop().add(std::move(till)).add(std::move(desk));
}

skald::testing::proof_options with_signal()
{
    skald::testing::proof_options options;
    options.signals = {{"approve", R"({"by": "eve", "yes": true})"}};
    return options;
}

template <class Definition, class Charge, class Refund = refund>
skald::testing::proof refute(Definition const& saga, Charge charging, Refund refunding = refund{gateway()})
{
    host(saga, std::move(charging), std::move(refunding));
    auto options = with_signal();
    options.sampled = 0;
    auto const proof = shop().prove_exactly_once(saga, purchase{"p", 100}, options);
    INFO(proof.report());
    CHECK_FALSE(proof);
    CHECK(proof.failed_schedule().find(';') == proof.failed_schedule().rfind(';'));
    return proof;
}

std::string till_url()
{
    return shop().database_url("till");
}

namespace mistakes {

/// Its list is never up to date, and it takes that for a no.
struct always_no final : charge
{
    using charge::charge;
    skald::probe<receipt> look(skald::call_context&, purchase const&) const override { return skald::did_not_happen(); }
};

/// It takes a list that it can't read for a yes.
struct always_yes final : charge
{
    using charge::charge;
    skald::probe<receipt> look(skald::call_context&, purchase const&) const override { return receipt{"?"}; }
};

/// It asks by making the request again.
struct charging_look final : charge
{
    using charge::charge;
    skald::probe<receipt> look(skald::call_context& ctx, purchase const&) const override
    {
        return at().act("charge " + ctx.key());
    }
};

struct call_in_prepare final : charge
{
    using charge::charge;
    skald::outcome prepare(skald::step_context& ctx, purchase&) const override
    {
        at().act("charge " + ctx.key());
        note(ctx, "intent");
        return skald::done();
    }
    receipt call(skald::call_context& ctx, purchase const&) const override { return {"charge " + ctx.key()}; }
};

struct settle_outside final : charge
{
    using charge::charge;
    skald::outcome settle(skald::step_context&, purchase& p, receipt const& r) const override
    {
        pqxx::connection own{till_url()};
        pqxx::nontransaction{own}.exec("INSERT INTO effect VALUES ('receipt')");
        p.receipt = r.number;
        return skald::done();
    }
};

/// What it prepared remains where the call does not happen.
struct nothing_abandoned final : charge
{
    using charge::charge;
    void abandon(skald::step_context&, purchase&) const override {}
};

struct refund_too_little final : refund
{
    using refund::refund;
    receipt call(skald::call_context& ctx, purchase const& p) const override
    {
        return at().act("refund " + ctx.key(), 1 - p.cents);
    }
};

/// It undoes its rows, and the bank keeps the money.
struct no_refund final : refund
{
    using refund::refund;
    receipt call(skald::call_context&, purchase const&) const override { return {"none"}; }
};

struct settle_rejects final : charge
{
    using charge::charge;
    skald::outcome settle(skald::step_context&, purchase&, receipt const&) const override
    {
        return skald::reject("too dear");
    }
};

struct settle_throws final : charge
{
    using charge::charge;
    skald::outcome settle(skald::step_context&, purchase&, receipt const&) const override
    {
        throw std::runtime_error{"no ink"};
    }
};

}  // namespace mistakes

}  // namespace

// The quick form has every kind of disturbance at every message, part and call; the whole one is proof_test's.
TEST_CASE("a saga with a call, a call that undoes it, and a wait passes each place of the matrix")
{
    static constexpr auto saga = named("right");
    host(saga, charge{gateway()});
    auto options = with_signal();
    options.quick = true;
    auto const proof = shop().prove_exactly_once(saga, purchase{"p", 100}, options);
    INFO(proof.report());
    REQUIRE(proof);
    MESSAGE(proof.report());
    for (auto const* const name : {"crash before the call", "crash after the call", "lose the lease of the call"}) {
        CAPTURE(name);
        REQUIRE(proof.by_kind().contains(name));
        CHECK(proof.by_kind().at(name).run > 1);
        CHECK(proof.by_kind().at(name).not_met == 0);
    }
}

TEST_CASE("a look that always says no is found")
{
    auto const proof = refute(named("always-no"), mistakes::always_no{gateway()});
    CHECK(has(proof.cause(), "look() of charge said did_not_happen(), though a call had already done this"));
    CHECK(has(proof.cause(), "+ charge proof:charge"));
    CHECK(has(proof.difference(), "outside: bank"));
}

TEST_CASE("a look that always says yes is found")
{
    auto const proof = refute(named("always-yes"), mistakes::always_yes{gateway()});
    CHECK(has(proof.cause(), "look() of charge said happened(), though no call had been made"));
}

TEST_CASE("a look that does it again is found")
{
    auto const proof = refute(named("charging-look"), mistakes::charging_look{gateway()});
    CHECK(has(proof.cause(), "look() of charge did something itself"));
}

TEST_CASE("a call that is made by prepare is found")
{
    auto const proof = refute(named("call-in-prepare"), mistakes::call_in_prepare{gateway()});
    CHECK(has(proof.cause(), "prepare() of charge already made the call"));
    CHECK(has(proof.cause(), "+ charge proof:charge"));
}

TEST_CASE("a settle that writes outside its transaction is found")
{
    auto const proof = refute(named("settle-outside"), mistakes::settle_outside{gateway()});
    CHECK(has(proof.cause(), "settle() of charge made its effect outside its transaction"));
}

TEST_CASE("what was prepared and not abandoned is found")
{
    auto const proof = refute(named("nothing-abandoned"), mistakes::nothing_abandoned{gateway()});
    CHECK(has(proof.report(), "intent"));
    CHECK(has(proof.failed_schedule(), "refuse charge.call indefinitely"));
}

TEST_CASE("a refund of too little, or none, at another system is found by what has to be as before there")
{
    auto const little = refute(named("refund-too-little"), charge{gateway()}, mistakes::refund_too_little{gateway()});
    CHECK(little.failed_schedule() == "reject approve");
    CHECK(little.difference() == "  outside: bank\n    - 0 cents\n    + 1 cents\n");
    CHECK(
        has(little.report(), "the saga was compensated, and has not left what is watched outside as it was before it"));
    CHECK(little.cause().starts_with("look at charge: it may be that the compensations do not undo all"));
    auto const none = refute(named("no-refund"), charge{gateway()}, mistakes::no_refund{gateway()});
    CHECK(none.difference() == "  outside: bank\n    - 0 cents\n    + 100 cents\n");
}

TEST_CASE("what is watched has to be as before if nothing tells what else has to be")
{
    static constexpr auto saga = named("told-nothing");
    skald::testing::harness other;
    auto till = furnished("till"), desk = furnished("desk");
    till.host(saga, steps::charge, charge{gateway()}, refund{gateway()});
    desk.host(saga, steps::approve, approve{});
    other.add(std::move(till)).add(std::move(desk)).watch({"bank", [] { return gateway()->did; }, clear});
    auto options = with_signal();
    options.only = "reject approve";
    auto const proof = other.prove_exactly_once(saga, purchase{"p", 100}, options);
    CHECK_FALSE(proof);
    CHECK(proof.difference() == "  outside: bank\n    + charge proof:charge\n    + refund proof:charge.compensate\n");
    CHECK(
        has(proof.cause(), "tell watch() what has to be as before, such as a balance: {name, read, clear, restored}"));
}

TEST_CASE("a settle that rejects is told that what its call did stays, and one that throws does not end the proof late")
{
    auto const rejects = refute(named("settle-rejects"), mistakes::settle_rejects{gateway()});
    CHECK(rejects.cause().starts_with("settle() of charge rejected what its call had done"));
    CHECK(has(rejects.cause(), "what the call did in the other system stays"));
    auto const throws = refute(named("settle-throws"), mistakes::settle_throws{gateway()});
    CHECK(has(throws.report(), "charge in till does not end, after 20 tries"));
    CHECK(has(throws.report(), "no ink"));
}

TEST_CASE("a bank that can't tell proves nothing, unless the test says that a saga may end as unknown")
{
    static constexpr auto saga = named("cannot-tell");
    gateway()->can_tell = false;
    host(saga, charge{gateway()});
    auto options = with_signal();
    options.only = "fail charge.call once";
    auto const without = shop().prove_exactly_once(saga, purchase{"p", 100}, options);
    CHECK_FALSE(without);
    INFO(without.report());
    CHECK(has(without.report(), "the saga ends as unknown and not as completed"));
    CHECK(without.cause().starts_with("look() of charge could not tell what its call has done"));
    options.may_end_unknown = true;
    options.only = "forward; crash after the call at charge.call";
    auto const with = shop().prove_exactly_once(saga, purchase{"p", 100}, options);
    gateway()->can_tell = true;
    INFO(with.report());
    CHECK(with);
}

}  // namespace kit_bank
