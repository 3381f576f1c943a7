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
    std::string charge{};  // the gateway's id of it, where one charges
};

inline void to_json(nlohmann::json& to, order const& o)
{
    to = {{"id", o.id}, {"customer", o.customer}, {"sku", o.sku}, {"quantity", o.quantity}, {"cents", o.cents}};
    if (!o.charge.empty()) to["charge"] = o.charge;
}

inline void from_json(nlohmann::json const& from, order& o)
{
    from.at("id").get_to(o.id);
    from.at("customer").get_to(o.customer);
    from.at("sku").get_to(o.sku);
    from.at("quantity").get_to(o.quantity);
    from.at("cents").get_to(o.cents);
    o.charge = from.value("charge", "");
}

namespace steps {
inline constexpr skald::compensatable<order> create_order{"create-order", "orders"};
inline constexpr skald::compensatable<order> charge_payment{"charge-payment", "payments"};
inline constexpr skald::pivot<order> arrange_shipping{"arrange-shipping", "shipping"};
inline constexpr skald::retriable<order> confirm_order{"confirm-order", "orders"};
}  // namespace steps

inline constexpr auto place_order = skald::define("place-order", steps::create_order, steps::charge_payment,
                                                  steps::arrange_shipping, steps::confirm_order);

}  // namespace order_saga
