// Takes the money on a connection of its own, where each statement is committed at once.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class effect_outside final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context&, order& o) const override
    {
        pqxx::connection own{url()};
        pqxx::nontransaction{own}.exec("UPDATE wallet SET cents = cents - " + std::to_string(o.cents));
        return skald::done();
    }
};

}  // namespace kit_test::mistakes
