// What a service's hooks are called for, and in which order.
#include "worker/hooked_step.hpp"

#include <skald/skald.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace skald;

namespace {

struct parcel
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id)

struct no_database final : detail::unit_of_work
{
    pqxx::transaction_base& tx() override { throw std::logic_error{"there is no transaction here"}; }
    std::string const& prepared(std::string_view) override { throw std::logic_error{"there is no transaction here"}; }
    std::chrono::sys_time<std::chrono::microseconds> now() const override { return {}; }
};

struct packing final : compensatable_step<parcel>, batch_step<parcel>
{
    outcome execute(step_context&, parcel& p) const override
    {
        if (p.id == "fragile") throw std::runtime_error{"it broke"};
        if (p.id == "heavy") return reject("too heavy");
        return done();
    }
    void compensate(step_context&, parcel&) const override {}
    batch_outcome execute_batch(batch<parcel>& all) const override
    {
        for (auto& one : all) {
            if (one.data.id == "fragile") throw std::runtime_error{"it broke"};
            if (one.data.id == "odd") return one_by_one();
            if (one.data.id == "heavy") one.reject("too heavy");
        }
        return all_done();
    }
};

struct ticket
{
    int number{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ticket, number)

struct booking final : external_step<parcel, ticket>
{
    outcome prepare(step_context&, parcel&) const override { return done(); }
    ticket call(call_context&, parcel const&) const override { return {}; }
    probe<ticket> look(call_context&, parcel const&) const override { return did_not_happen(); }
    outcome settle(step_context&, parcel&, ticket const&) const override { return done(); }
};

struct unbooking final : external_compensation<parcel, ticket>
{
    ticket call(call_context&, parcel const&) const override { return {}; }
    probe<ticket> look(call_context&, parcel const&) const override { return did_not_happen(); }
    void settle(step_context&, parcel&, ticket const&) const override {}
};

/// The step `pack` with hooks that record their calls.
struct hooked
{
    hooked()
    {
        hooks->before = [this](step_call const& of, step_context& ctx) { record(of, ctx, "before"); };
        hooks->after = [this](step_call const& of, step_context& ctx, outcome const& ended) {
            record(of, ctx, ended.rejected() ? "rejected" : "done");
        };
        hooks->on_failure = [this](step_call const& of, step_context const& ctx, std::string_view error) {
            record(of, ctx, std::string{error});
        };
    }

    void record(step_call const& of, step_context const& ctx, std::string const& what)
    {
        calls.push_back(std::string{of.definition} + ' ' + std::string{of.step} +
                        (of.is_compensation ? " back " : " ") + ctx.saga_key() + ": " + what);
    }

    step_context context(std::string const& key) { return {none, "", key, key + ":pack", 1}; }

    /// What was called since the last time.
    std::vector<std::string> called() { return std::exchange(calls, {}); }

    no_database none;
    std::shared_ptr<step_hooks> hooks{std::make_shared<step_hooks>()};
    worker_detail::hooked_step step{"send", "pack", std::make_unique<detail::typed_step<parcel, packing>>(packing{}),
                                    hooks};
    std::vector<std::string> calls;
};

std::string body(std::string const& id)
{
    return nlohmann::json(parcel{id}).dump();
}

}  // namespace

TEST_CASE("hooks are called around a step and its compensation, with how it ended")
{
    using list = std::vector<std::string>;
    hooked h;
    auto ctx = h.context("k");
    CHECK(h.step.read(body("light"))->execute(ctx).is_done());
    CHECK(h.called() == list{"send pack k: before", "send pack k: done"});
    CHECK(h.step.read(body("heavy"))->execute(ctx).rejected());
    CHECK(h.called() == list{"send pack k: before", "send pack k: rejected"});
    CHECK_THROWS_WITH(h.step.read(body("fragile"))->execute(ctx), "it broke");
    CHECK(h.called() == list{"send pack k: before", "send pack k: it broke"});
    h.step.read(body("light"))->compensate(ctx);
    CHECK(h.called() == list{"send pack back k: before", "send pack back k: done"});
}

TEST_CASE("an exception of a hook is one of the step, which then does not run")
{
    hooked h;
    h.hooks->before = [](step_call const&, step_context&) { throw std::runtime_error{"no tenant"}; };
    auto ctx = h.context("k");
    CHECK_THROWS_WITH(h.step.read(body("light"))->execute(ctx), "no tenant");
    CHECK(h.called() == std::vector<std::string>{"send pack k: no tenant"});
    h.hooks = {};
    worker_detail::hooked_step const bare{"send", "pack",
                                          std::make_unique<detail::typed_step<parcel, packing>>(packing{}),
                                          std::make_shared<step_hooks>()};
    CHECK(bare.read(body("light"))->execute(ctx).is_done());
}

TEST_CASE("in a batch, hooks are called for each delivery")
{
    using list = std::vector<std::string>;
    hooked h;
    auto const run = [&](std::string const& first, std::string const& second) {
        auto one = h.context("a");
        auto two = h.context("b");
        auto const read_one = h.step.read(body(first));
        auto const read_two = h.step.read(body(second));
        std::optional<reject_outcome> no_one, no_two;
        std::vector<detail::member_run> const all{{one, *read_one, no_one}, {two, *read_two, no_two}};
        return h.step.execute_batch(all);
    };
    CHECK(run("light", "heavy") == batch_outcome::all_done);
    CHECK(h.called() ==
          list{"send pack a: before", "send pack b: before", "send pack a: done", "send pack b: rejected"});
    CHECK(run("light", "odd") == batch_outcome::one_by_one);
    CHECK(h.called() == list{"send pack a: before", "send pack b: before"});
    CHECK_THROWS(run("light", "fragile"));
    CHECK(h.called() ==
          list{"send pack a: before", "send pack b: before", "send pack a: it broke", "send pack b: it broke"});
}

TEST_CASE("hooks know which transaction of two is one of the compensation, and run around what is abandoned too")
{
    using list = std::vector<std::string>;
    hooked h;
    worker_detail::hooked_step const both{
        "send", "book",
        std::make_unique<detail::typed_external_step<parcel, booking, unbooking>>(booking{}, unbooking{}), h.hooks};
    auto ctx = h.context("k");
    auto const second = [&](bool is_forward) -> auto const&
    {
        return *both.external(is_forward);
    };
    second(true).settle(body("light"), R"({"number": 1})")->execute(ctx);
    second(true).abandon(body("light"))->execute(ctx);
    CHECK(h.called() == list{"send book k: before", "send book k: done", "send book k: before", "send book k: done"});
    second(false).settle(body("light"), R"({"number": 1})")->execute(ctx);
    second(false).abandon(body("light"))->execute(ctx);
    CHECK(h.called() == list{"send book back k: before", "send book back k: done", "send book back k: before",
                             "send book back k: done"});
}
