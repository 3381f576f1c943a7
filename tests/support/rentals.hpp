// One saga in three versions. 1: reserve, charge, hand over. 2: with a member more, `note`, and a step in the middle,
// `insure`. 3: `customer` is called `buyer`, by an upcast, and `insure` has left the plan. Every step adds its name to
// `trail`, and the last one writes down all that it got.
#pragma once

#include <skald/skald.hpp>

#include <optional>
#include <string>

namespace skald::test {

struct rental_1
{
    std::string id, customer, trail;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(rental_1, id, customer, trail)

struct rental_2
{
    std::string id, customer, trail;
    std::optional<std::string> note;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(rental_2, id, customer, trail, note)

// Without defaults for what version 2 does not have: its data must come through the upcast.
struct rental_3
{
    std::string id, buyer, trail;
    std::optional<std::string> note;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(rental_3, id, buyer, trail, note)

template <class Rental>
struct rental_steps
{
    static constexpr compensatable<Rental> reserve{"reserve", "stock"};
    static constexpr compensatable<Rental> insure{"insure", "bank"};
    static constexpr pivot<Rental> charge{"charge", "bank"};
    static constexpr retriable<Rental> hand_over{"hand-over", "stock"};
};

template <int Version>
struct rental_version;

template <>
struct rental_version<1> : rental_steps<rental_1>
{
    using data = rental_1;
    static constexpr auto plan = define("rent", reserve, charge, hand_over);
};

template <>
struct rental_version<2> : rental_steps<rental_2>
{
    using data = rental_2;
    static constexpr auto plan = define("rent", reserve, insure, charge, hand_over).versioned(2);
};

template <>
struct rental_version<3> : rental_steps<rental_3>
{
    using data = rental_3;
    static constexpr auto plan = define("rent", reserve, charge, hand_over)
                                     .versioned(3, upcast<rental_2, rental_3>([](rental_2 const& old) {
                                                    return rental_3{old.id, old.customer, old.trail, old.note};
                                                }))
                                     .retired(insure);
};

inline std::string const& who_of(rental_1 const& r)
{
    return r.customer;
}
inline std::string const& who_of(rental_2 const& r)
{
    return r.customer;
}
inline std::string const& who_of(rental_3 const& r)
{
    return r.buyer;
}

inline std::string note_of(rental_1 const&)
{
    return "";
}
template <class Rental>
std::string note_of(Rental const& r)
{
    return r.note.value_or("");
}

// No constraint: a second run would show.
inline constexpr auto rental_tables = "CREATE TABLE did (key text, step text, who text, trail text, note text)";

template <class Rental>
void write_down(step_context& ctx, std::string const& step, Rental& r)
{
    ctx.sql("INSERT INTO did VALUES ($1, $2, $3, $4, $5)", ctx.saga_key(), step, who_of(r), r.trail, note_of(r));
    r.trail += (r.trail.empty() ? "" : " ") + step;
}

template <class Rental>
struct undoable final : compensatable_step<Rental>
{
    explicit undoable(std::string n) : name{std::move(n)} {}
    outcome execute(step_context& ctx, Rental& r) const override
    {
        write_down(ctx, name, r);
        return done();
    }
    void compensate(step_context& ctx, Rental& r) const override { write_down(ctx, "undo-" + name, r); }
    std::string name;
};

/// Customers called `poor...` are rejected.
template <class Rental>
struct charging_rent final : pivot_step<Rental>
{
    outcome execute(step_context& ctx, Rental& r) const override
    {
        if (who_of(r).starts_with("poor")) return reject("no money");
        write_down(ctx, "charge", r);
        return done();
    }
};

template <class Rental>
struct handing_over final : retriable_step<Rental>
{
    forward_outcome execute(step_context& ctx, Rental& r) const override
    {
        write_down(ctx, "hand-over", r);
        return done();
    }
};

/// `stock`, the home, or `bank`, as the build of that version has it.
template <int Version>
service rental_service(std::string const& name)
{
    using v = rental_version<Version>;
    using data = typename v::data;
    service s{name};
    s.migrate("0001_did", rental_tables);
    if (name == "stock")
        return std::move(
            s.host(v::plan, v::reserve, undoable<data>{"reserve"}).host(v::plan, v::hand_over, handing_over<data>{}));
    s.host(v::plan, v::charge, charging_rent<data>{});
    if constexpr (Version > 1) s.host(v::plan, v::insure, undoable<data>{"insure"});
    return s;
}

}  // namespace skald::test
