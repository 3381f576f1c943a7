#include "load.hpp"

#include "bench_tool_sql.hpp"
#include "broker_extras.hpp"

#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {

saga_starter::saga_starter(world& databases, load_shape shape, bool by_function)
    : databases_{databases}, shape_{shape}, by_function_{by_function}, keys_{shape.ordered_keys,
                                                                             std::random_device{}()},
      oldest_{ask(databases.at(orders), sql::server_now)[0][0].c_str()}
{}

void saga_starter::start(int count)
{
    std::string scopes, keys, customers;
    for (int i = 0; i < count; ++i, ++started_) {
        bool const rejected = load_shape::is_among(started_, shape_.rejected_percent);
        bool const again = load_shape::is_among(started_, shape_.again_percent);
        auto const separator = i == 0 ? '{' : ',';
        scopes += separator + std::string{again ? every_message_again::scope : "plain"};
        keys += separator + keys_.make();
        customers += separator + (rejected     ? std::string{"broke"}
                                  : shape_.hot ? "hot"
                                               : fmt::format("c-{:06}", started_));
        rejected_ += rejected ? 1 : 0;
    }
    ask(databases_.at(orders), by_function_ ? sql::start_function : sql::start_rows, scopes + '}', keys + '}',
        customers + '}', std::string{itinerary});
}

std::int64_t saga_starter::under_way()
{
    auto const row = ask(databases_.at(orders), sql::under_way, oldest_)[0];
    auto const count = row[0].as<std::int64_t>();
    if (count > 0) oldest_ = row[1].c_str();
    return count;
}

shop_counts count_shop(world& databases)
{
    shop_counts counted;
    auto const home = ask(databases.at(orders), sql::counts_orders)[0];
    counted.orders_kept = home[0].as<std::int64_t>();
    counted.orders_cancelled = home[1].as<std::int64_t>();
    counted.sagas_completed = home[2].as<std::int64_t>();
    counted.sagas_compensated = home[3].as<std::int64_t>();
    auto const paid = ask(databases.at(payments), sql::counts_payments)[0];
    counted.charges = paid[0].as<std::int64_t>();
    counted.charges_hot = paid[1].as<std::int64_t>();
    auto const shipped = ask(databases.at(shipping), sql::counts_shipping)[0];
    counted.shipments = shipped[0].as<std::int64_t>();
    counted.parked = home[4].as<std::int64_t>() + paid[2].as<std::int64_t>() + shipped[1].as<std::int64_t>();
    counted.unsent = home[5].as<std::int64_t>() + paid[3].as<std::int64_t>() + shipped[2].as<std::int64_t>();
    return counted;
}

void check_shop(shop_counts const& before, shop_counts const& after, std::int64_t sagas, std::int64_t rejected,
                bool hot)
{
    auto const completed = sagas - rejected;
    auto const expect = [](char const* what, std::int64_t is, std::int64_t should) {
        if (is != should)
            throw std::runtime_error{
                fmt::format("wrong: {} {}, and not {}: the figures mean nothing", is, what, should)};
    };
    expect("sagas completed", after.sagas_completed - before.sagas_completed, completed);
    expect("sagas compensated", after.sagas_compensated - before.sagas_compensated, rejected);
    expect("orders kept", after.orders_kept - before.orders_kept, completed);
    expect("orders cancelled", after.orders_cancelled - before.orders_cancelled, rejected);
    expect("charges", after.charges - before.charges, hot ? 0 : completed);
    expect("charges to the one wallet", after.charges_hot - before.charges_hot, hot ? completed : 0);
    expect("shipments", after.shipments - before.shipments, completed);
    expect("deliveries parked", after.parked, before.parked);
    expect("messages unsent", after.unsent, 0);
}

bool is_anything_unsent(world& databases)
{
    for (std::size_t i = 0; i < service_names.size(); ++i)
        if (ask(databases.at(i), sql::is_unsent)[0][0].as<bool>()) return true;
    return false;
}

}  // namespace skald_bench
