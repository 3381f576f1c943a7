// Remembers in the process what it has to give back.
#pragma once

#include "mistakes/charging.hpp"

#include <map>

namespace kit_test::mistakes {

class remembered_in_memory final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        taken_[ctx.saga_key()] = o.cents;
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order&) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $1", taken_[ctx.saga_key()]);
    }

    mutable std::map<std::string, std::int64_t> taken_;
};

}  // namespace kit_test::mistakes
