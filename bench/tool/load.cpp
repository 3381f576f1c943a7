#include "load.hpp"

#include "bench_tool_sql.hpp"

#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {

void start_sagas(pqxx::connection& home, saga_kind const& kind, nlohmann::json const& data, bool by_function)
{
    ask(home, by_function ? sql::start_function : sql::start_rows, data.dump(), std::string{kind.definition},
        std::string{kind.itinerary}, std::string{kind.home});
}

saga_starter::saga_starter(bench_databases& databases, bool ordered_keys, bool by_function)
    : databases_{databases}, by_function_{by_function}, keys_{ordered_keys, std::random_device{}()},
      oldest_{ask(databases.at(orders), sql::server_now)[0][0].c_str()}
{}

void saga_starter::start(int count)
{
    auto data = nlohmann::json::array();
    for (int i = 0; i < count; ++i, ++started_)
        data.push_back({{"id", keys_.make()},
                        {"customer", fmt::format("c-{:06}", started_)},
                        {"sku", "tea"},
                        {"quantity", 1},
                        {"cents", 1'200}});
    start_sagas(databases_.at(orders), bench_order, data, by_function_);
}

std::int64_t saga_starter::under_way()
{
    auto const row = ask(databases_.at(orders), sql::under_way, oldest_)[0];
    auto const count = row[0].as<std::int64_t>();
    if (count > 0) oldest_ = row[1].c_str();
    return count;
}

shop_counts count_shop(bench_databases& databases)
{
    auto const home = ask(databases.at(orders), sql::counts_orders)[0];
    auto const paid = ask(databases.at(payments), sql::counts_payments)[0];
    auto const shipped = ask(databases.at(shipping), sql::counts_shipping)[0];
    auto const number = [](auto const& field) { return field.template as<std::int64_t>(); };
    return {.orders = number(home[0]),
            .charges = number(paid[0]),
            .shipments = number(shipped[0]),
            .sagas_completed = number(home[1]),
            .parked = number(home[2]) + number(paid[1]) + number(shipped[1]),
            .unsent = number(home[3]) + number(paid[2]) + number(shipped[2])};
}

void check_shop(shop_counts const& before, shop_counts const& after, std::int64_t sagas)
{
    auto const expect = [](char const* what, std::int64_t is, std::int64_t should) {
        if (is != should)
            throw std::runtime_error{
                fmt::format("wrong: {} {}, and not {}: the figures mean nothing", is, what, should)};
    };
    expect("sagas completed", after.sagas_completed - before.sagas_completed, sagas);
    expect("orders", after.orders - before.orders, sagas);
    expect("charges", after.charges - before.charges, sagas);
    expect("shipments", after.shipments - before.shipments, sagas);
    expect("deliveries parked", after.parked, before.parked);
    expect("messages unsent", after.unsent, 0);
}

bool is_anything_unsent(bench_databases& databases)
{
    for (std::size_t i = 0; i < service_names.size(); ++i)
        if (ask(databases.at(i), sql::is_unsent)[0][0].as<bool>()) return true;
    return false;
}

}  // namespace skald_bench
