// A saga of four steps in one service, the depot; each step is a script that a test may replace.
#pragma once

#include <skald/skald.hpp>

#include <functional>
#include <string>

namespace skald::test {

struct parcel
{
    std::string id;
    int weight{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id, weight)

namespace steps {
inline constexpr skald::compensatable<parcel> pack{"pack", "depot"};
inline constexpr skald::compensatable<parcel> weigh{"weigh", "depot"};
inline constexpr skald::pivot<parcel> load{"load", "depot"};
inline constexpr skald::retriable<parcel> sign{"sign", "depot"};
}  // namespace steps
inline constexpr auto send = skald::define("send", steps::pack, steps::weigh, steps::load, steps::sign);

inline void note(skald::step_context& ctx, std::string const& what)
{
    ctx.sql("INSERT INTO effect (what) VALUES ($1)", what);
}

using script = std::function<skald::outcome(skald::step_context&, parcel&)>;
using undo_script = std::function<void(skald::step_context&, parcel&)>;

struct scripted : skald::compensatable_step<parcel>
{
    scripted(std::string n, script s, undo_script u = {}) : name{std::move(n)}, run{std::move(s)}, undo{std::move(u)} {}

    skald::outcome execute(skald::step_context& ctx, parcel& p) const override { return run(ctx, p); }

    void compensate(skald::step_context& ctx, parcel& p) const override
    {
        if (undo) undo(ctx, p);
        note(ctx, "undo " + name);
    }

    std::string name;
    script run;
    undo_script undo;
};

struct scripted_pivot : skald::pivot_step<parcel>
{
    explicit scripted_pivot(script s) : run{std::move(s)} {}
    skald::outcome execute(skald::step_context& ctx, parcel& p) const override { return run(ctx, p); }
    script run;
};

struct scripted_retriable : skald::retriable_step<parcel>
{
    explicit scripted_retriable(script s) : run{std::move(s)} {}

    skald::forward_outcome execute(skald::step_context& ctx, parcel& p) const override
    {
        auto const ended = run(ctx, p);
        if (ended.snoozed()) return *ended.snoozed();
        return skald::done();
    }

    script run;
};

inline script done(std::string const& what)
{
    return [what](skald::step_context& ctx, parcel&) -> skald::outcome {
        note(ctx, what);
        return skald::done();
    };
}

struct depot_scripts
{
    script pack = done("pack"), weigh = done("weigh"), load = done("load"), sign = done("sign");
    undo_script undo_weigh;
};

inline constexpr auto effects_in_order = "SELECT coalesce(string_agg(what, ', ' ORDER BY n), '') FROM effect";
inline std::string record_of(std::string const& step)
{
    return "SELECT concat_ws('|', status, attempts, snoozes) FROM skald.idempotency WHERE step = '" + step + "'";
}

}  // namespace skald::test
