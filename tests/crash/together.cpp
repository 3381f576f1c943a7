// Many orders whose charges arrive as one batch: payments has one lane, which the first of them holds while the others
// arrive.
#include "run.hpp"

#include <nlohmann/json.hpp>

namespace skald::crash {

/// The last of them comes first, and another transaction holds its charge's key until the others have come.
void run::add_companions(int number)
{
    for (int i = 1; i <= goes_.companions; ++i) {
        auto const name = '-' + std::to_string(number) + '-' + std::to_string(i);
        placed_.push_back({"order" + name, "ann" + name, "lamp" + name, &forward, nullptr, 0});
    }
}

void run::place(placed& order)
{
    order.client = std::make_unique<customer>(
        shop_, order.key,
        nlohmann::json{{"customer", order.person}, {"sku", order.item}, {"quantity", 1}, {"cents", price}}.dump());
}

/// One step further: the lane waits for a key, the others arrive, the key is free.
void run::come_together()
{
    auto hits = shop_.arms(payments).hits();
    if (stage_ == 0 && hits["consumer.parsed"] > 0) {
        for (auto& one : placed_)
            if (!one.client) place(one);
        stage_ = 1;
    }
    auto const arrivals = placed_.size() * (goes_.besides == disturbance::twice ? 2 : 1);
    if (stage_ == 1 && hits["consumer.delivered"] >= arrivals) {
        if (blocker_) unblock();
        was_disturbed_ = true;
    }
}

}  // namespace skald::crash
