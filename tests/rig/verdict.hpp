// What happened to every order, computed by SQL over the three databases.
//
// The rows of the payments and shipping databases, and what the clients know, are copied into temporary tables next to
// those of the orders database, so that every figure and every check is one query with exact joins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rig/order_client.hpp"
#include "rig/order_plan.hpp"
#include "rig/shop_databases.hpp"

namespace skald::rig {

struct figure
{
    std::string name;  // "charges"
    std::int64_t value{};
    bool is_sum{};  // of money or stock: what must add up
};

/// Something that must not occur: with count 0 the check has passed.
struct finding
{
    std::string name;  // "charged twice"
    std::int64_t count{};
    std::vector<std::string> examples;  // at most examples_max of them
};

inline constexpr int examples_max = 5;

struct verdict
{
    std::vector<figure> figures;
    std::vector<finding> findings;

    bool passed() const;
    std::int64_t figure_named(std::string const& name) const;
    std::int64_t found(std::string const& name) const;
};

/// An order that was placed at a home other than the orders service, and the status of its saga there; empty: none.
struct order_elsewhere
{
    planned_order order;  // its key is the order's id too
    std::string saga;
};

/// To be called when nothing changes the databases any more. `charges`: what a gateway says that it charged, as
/// rig::gateway::charges() has it; nothing where wallets alone pay.
verdict judge(shop_databases& databases, order_plan const& plan, std::vector<order_record> const& records,
              std::vector<order_elsewhere> const& elsewhere = {}, std::optional<nlohmann::json> const& charges = {});

}  // namespace skald::rig
