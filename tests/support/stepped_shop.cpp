#include "support/stepped_shop.hpp"

#include "order_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace skald::test {

core::message stepped_shop::order_up_to(std::string const& step, std::string const& key)
{
    order(key);
    for (int round = 0; round < 9; ++round) {
        for (auto const* name : {"orders", "payments", "shipping"}) at(name).relay_due();
        auto const all = transport().captured();
        auto const found = std::ranges::find(all, key + ':' + step, &core::message::id);
        if (found != all.end()) return *found;
        for (auto const* name : {"orders", "payments", "shipping"}) at(name).process_one();
    }
    FAIL("no message of ", step);
    return {};
}

void stepped_shop::create_tables()
{
    using namespace order_saga;
    at("orders").db.run(std::string{tables::orders});
    at("payments").db.run(std::string{tables::payments} + "INSERT INTO wallet VALUES ('ann', 1000)");
    at("shipping").db.run(std::string{tables::shipping} + "INSERT INTO stock VALUES ('pen', 5)");
}

}  // namespace skald::test
