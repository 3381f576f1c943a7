// POST /orders: places an order.
#pragma once

#include "order_steps.hpp"

namespace order_saga {

/// What a client sends.
struct order_request
{
    std::string customer;
    std::string sku;
    int quantity{};
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_request, customer, sku, quantity, cents)

inline std::string problem_with(order_request const& r)
{
    if (r.customer.empty()) return "customer must not be empty";
    if (r.sku.empty()) return "sku must not be empty";
    if (r.quantity < 1) return "quantity must be at least 1";
    if (r.cents < 0) return "cents must not be negative";
    return {};
}

inline skald::http::response place(skald::http::request_context& ctx)
{
    auto const r = ctx.json<order_request>();
    if (auto const problem = problem_with(r); !problem.empty()) return skald::http::problem_response(400, problem);

    order const o{skald::make_key(), r.customer, r.sku, r.quantity, r.cents};
    auto const ended = ctx.start(place_order, create_order{}, o);
    if (auto const* no = ended.rejected()) return skald::http::problem_response(422, no->reason);
    return skald::http::json_response(202, {{"order_id", o.id}, {"saga", ctx.key()}},
                                      {{"Location", skald::http::saga_path(ctx.key())}});
}

}  // namespace order_saga
