// Numbers its charges with a counter of the process.
#pragma once

#include "mistakes/charging.hpp"

#include <atomic>
#include <memory>

namespace kit_test::mistakes {

class counter_in_memory final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, 'charge')",
                o.id + "/" + std::to_string(++*last_), o.customer, o.cents);
        return skald::done();
    }

    std::shared_ptr<std::atomic<int>> last_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace kit_test::mistakes
