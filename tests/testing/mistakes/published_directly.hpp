// Tells the simulation of the charge by itself, before it is sure.
#pragma once

#include "mistakes/charging.hpp"

#include <memory>
#include <string>
#include <vector>

namespace kit_test::mistakes {

/// A broker's stand-in.
using broker = std::vector<std::string>;

class published_directly final : public charging
{
public:
    explicit published_directly(std::shared_ptr<broker> to) : charging{[] { return std::string{}; }}, to_{std::move(to)}
    {}

private:
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        to_->push_back("charged " + o.id);
        return skald::done();
    }

    std::shared_ptr<broker> to_;
};

}  // namespace kit_test::mistakes
