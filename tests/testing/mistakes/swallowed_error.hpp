// Thinks that an SQL error is over once it is caught.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class swallowed_error final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        try {
            ctx.sql("INSERT INTO wallet VALUES ($1, 0)", o.customer);
        }
        catch (pqxx::sql_error const&) {
            // "there already"
        }
        return skald::done();
    }
};

}  // namespace kit_test::mistakes
