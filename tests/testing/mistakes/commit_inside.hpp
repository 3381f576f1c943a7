// Makes sure of the money by a COMMIT in the middle.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class commit_inside final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        ctx.tx().exec("COMMIT");
        return skald::done();
    }
};

}  // namespace kit_test::mistakes
