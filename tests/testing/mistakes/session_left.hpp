// Does something to its session that ends with that, and not with its transaction.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class session_left final : public skald::compensatable_step<order>
{
public:
    session_left(std::string execute, std::string compensate)
        : execute_{std::move(execute)}, compensate_{std::move(compensate)}
    {}

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents - $1", o.cents);
        ctx.tx().exec(execute_);
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $1", o.cents);
        ctx.tx().exec(compensate_);
    }

private:
    std::string execute_, compensate_;
};

}  // namespace kit_test::mistakes
