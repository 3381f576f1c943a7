// One saga in two versions at once: hotels and flights are new and know bags, seats and VIPs; cars and office are old
// and know none of them. A new step records what it sees.
#pragma once

#include <skald/skald.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::test {

struct new_leg
{
    std::string city;
    std::int64_t cents{};
    int seat{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(new_leg, city, cents, seat)
struct new_traveller
{
    std::string name;
    bool vip{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(new_traveller, name, vip)
struct new_trip
{
    std::string id;
    std::int64_t cents{};
    int bags{};
    new_traveller who;
    std::vector<new_leg> legs;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(new_trip, id, cents, bags, who, legs)

struct old_leg
{
    std::string city;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(old_leg, city, cents)
struct old_traveller
{
    std::string name;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(old_traveller, name)
struct old_trip
{
    std::string id;
    std::int64_t cents{};
    old_traveller who;
    std::vector<old_leg> legs;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(old_trip, id, cents, who, legs)

/// The same names in both versions.
template <class Trip>
struct trip_plan
{
    static constexpr compensatable<Trip> book_hotel{"book-hotel", "hotels"};
    static constexpr compensatable<Trip> rent_car{"rent-car", "cars"};
    static constexpr pivot<Trip> book_flight{"book-flight", "flights"};
    static constexpr retriable<Trip> send_papers{"send-papers", "office"};
    static constexpr retriable<Trip> close_trip{"close-trip", "hotels"};
    static constexpr auto all = define("book-trip", book_hotel, rent_car, book_flight, send_papers, close_trip);
};
using new_plan = trip_plan<new_trip>;
using old_plan = trip_plan<old_trip>;

inline constexpr auto seen_table = "CREATE TABLE seen (n serial, step text, trip text)";
inline constexpr auto seen_rows = "SELECT string_agg(step || ': ' || trip, E'\\n' ORDER BY n) FROM seen";

inline void write_down(step_context& ctx, std::string const& step, new_trip const& t)
{
    std::string seats;
    for (auto const& leg : t.legs) seats += ' ' + leg.city + '/' + std::to_string(leg.seat);
    ctx.sql("INSERT INTO seen (step, trip) VALUES ($1, $2)", step,
            std::to_string(t.cents) + (t.who.vip ? " vip " : " ") + std::to_string(t.bags) + seats);
}

struct book_hotel final : compensatable_step<new_trip>
{
    outcome execute(step_context&, new_trip& t) const override
    {
        t.bags = 9;
        t.cents += 1;
        return skald::done();
    }
    void compensate(step_context& ctx, new_trip& t) const override { write_down(ctx, "undo hotel", t); }
};

struct rent_car final : compensatable_step<old_trip>
{
    outcome execute(step_context&, old_trip& t) const override
    {
        t.cents += 10;
        t.who.name += '!';
        t.legs.back().cents = 7;
        std::swap(t.legs.front(), t.legs.back());
        return skald::done();
    }
    void compensate(step_context&, old_trip& t) const override { t.cents -= 10; }
};

struct book_flight final : pivot_step<new_trip>
{
    explicit book_flight(int most) : bags_max{most} {}
    outcome execute(step_context& ctx, new_trip& t) const override
    {
        if (t.bags > bags_max) return reject("too many bags: " + std::to_string(t.bags));
        write_down(ctx, "flight", t);
        return skald::done();
    }
    int bags_max;
};

/// Does nothing until there is a row in `paper`.
struct send_papers final : retriable_step<old_trip>
{
    forward_outcome execute(step_context& ctx, old_trip& t) const override
    {
        if (ctx.sql("SELECT FROM paper").empty()) throw std::runtime_error{"no paper"};
        t.cents += 100;
        return skald::done();
    }
};

struct close_trip final : retriable_step<new_trip>
{
    forward_outcome execute(step_context& ctx, new_trip& t) const override
    {
        write_down(ctx, "close", t);
        return skald::done();
    }
};

inline new_trip two_legs()
{
    return {"t", 0, 0, {"Ann", true}, {{"Oslo", 1, 11}, {"Rome", 2, 22}}};
}

}  // namespace skald::test
