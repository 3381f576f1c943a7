// What the three services share: the saga's data and its definition.
#pragma once

#include <skald/skald.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace order_saga {

struct order
{
    std::string id;
    std::string customer;
    std::string sku;
    int quantity{};
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, customer, sku, quantity, cents)

namespace steps {
inline constexpr skald::compensatable<order> create_order{"create-order", "orders"};
inline constexpr skald::compensatable<order> charge_payment{"charge-payment", "payments"};
inline constexpr skald::pivot<order> arrange_shipping{"arrange-shipping", "shipping"};
inline constexpr skald::retriable<order> confirm_order{"confirm-order", "orders"};
}  // namespace steps

inline constexpr auto place_order = skald::define("place-order", steps::create_order, steps::charge_payment,
                                                  steps::arrange_shipping, steps::confirm_order);

}  // namespace order_saga
