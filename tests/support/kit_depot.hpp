// The depot in the test kit: for what a user could say about a saga too.
#pragma once

#include "support/parcels.hpp"

#include <skald/testing.hpp>

#include <string>

namespace skald::test {

/// One harness for all of these tests, rewound for each. A step is tried three times with no wait in between.
class kit_depot : public depot_scripts
{
public:
    kit_depot()
    {
        now() = this;
        kit().rewind();
    }

    static testing::harness& kit()
    {
        static auto& made = furnished();
        return made;
    }

    /// Runs the saga "k" until nothing is due.
    void go(parcel const& what = {"p", 7})
    {
        kit().start(send, what, {.key = "k"});
        kit().deliver_all();
    }

    /// The first row of a query, or nothing.
    static std::string one(std::string const& sql)
    {
        auto const found = kit().ask("depot", sql);
        return found.empty() ? "" : found.front();
    }

    static std::string effects() { return one(effects_in_order); }
    static std::string record(std::string const& step) { return one(record_of(step)); }
    static std::string parked() { return one("SELECT coalesce(string_agg(reason, ' '), '') FROM skald.parked"); }

private:
    static kit_depot*& now()
    {
        static kit_depot* of_this_test{};
        return of_this_test;
    }

    static script current(script depot_scripts::*which)
    {
        return [which](step_context& ctx, parcel& p) { return (now()->*which)(ctx, p); };
    }

    static testing::harness& furnished()
    {
        static testing::harness made;
        step_options const at_once{.retry = {.attempts_max = 3, .first = {}, .longest = {}}};
        auto const undo = [](step_context& ctx, parcel& p) {
            if (now()->undo_weigh) now()->undo_weigh(ctx, p);
        };
        service depot{"depot"};
        depot.migrate("0001_effect", "CREATE TABLE effect (n serial, what text)")
            .host(send, steps::pack, scripted{"pack", current(&depot_scripts::pack)}, at_once)
            .host(send, steps::weigh, scripted{"weigh", current(&depot_scripts::weigh), undo}, at_once)
            .host(send, steps::load, scripted_pivot{current(&depot_scripts::load)}, at_once)
            .host(send, steps::sign, scripted_retriable{current(&depot_scripts::sign)}, at_once);
        return made.add(std::move(depot));
    }
};

}  // namespace skald::test
