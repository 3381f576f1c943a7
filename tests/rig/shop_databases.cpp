#include "rig/shop_databases.hpp"

#include <fmt/format.h>

namespace skald::rig {
namespace {

// What each service's database must have before the demonstration can use it.
constexpr std::array<char const*, service_count> tables_needed{
    "SELECT to_regclass('skald.saga') IS NOT NULL AND to_regclass('customer_order') IS NOT NULL",
    "SELECT to_regclass('skald.saga') IS NOT NULL AND to_regclass('wallet') IS NOT NULL"
    " AND to_regclass('charge') IS NOT NULL",
    "SELECT to_regclass('skald.saga') IS NOT NULL AND to_regclass('stock') IS NOT NULL"
    " AND to_regclass('shipment') IS NOT NULL",
};

constexpr char const* unfinished_sagas = R"(
    SELECT s.key, s.status::text, coalesce(s.reason, 'no reason'),
           (SELECT coalesce(string_agg(format('%s %s, attempt %s%s', h.step, h.status, h.attempts,
                                              coalesce(' (' || h.error || ')', '')),
                                       '; ' ORDER BY h.at), 'none')
              FROM (SELECT step, status::text, attempts, error, updated_at AS at
                      FROM skald.idempotency i WHERE i.scope = s.scope AND i.key = s.key AND step <> ''
                    UNION ALL
                    SELECT step, status::text, attempts, error, at
                      FROM skald.progress p WHERE p.scope = s.scope AND p.key = s.key) AS h)
      FROM skald.saga s
     WHERE s.status NOT IN ('completed', 'compensated')
     ORDER BY s.created_at
     LIMIT )";

std::string insert_rows(pqxx::work& tx, std::string const& into, std::map<std::string, std::int64_t> const& amounts)
{
    std::string values;
    for (auto const& [name, amount] : amounts)
        values += fmt::format("{}({}, {})", values.empty() ? "" : ", ", tx.quote(name), amount);
    return fmt::format("INSERT INTO {} VALUES {}", into, values);
}

}  // namespace

shop_databases::shop_databases(addresses const& chosen)
    : connections_{pqxx::connection{chosen.orders_database}, pqxx::connection{chosen.payments_database},
                   pqxx::connection{chosen.shipping_database}}
{}

bool shop_databases::has_tables(std::size_t service)
{
    pqxx::nontransaction tx{at(service)};
    return tx.exec(tables_needed[service])[0][0].as<bool>();
}

void shop_databases::fill(order_plan const& plan)
{
    pqxx::work wallets{at(payments)};
    wallets.exec(insert_rows(wallets, "wallet (customer, cents)", plan.wallets));
    wallets.commit();
    pqxx::work stock{at(shipping)};
    stock.exec(insert_rows(stock, "stock (sku, free)", plan.stock));
    stock.commit();
}

saga_census shop_databases::count_sagas()
{
    saga_census census;
    pqxx::nontransaction tx{at(orders)};
    for (auto const& row : tx.exec("SELECT status::text, count(*) FROM skald.saga GROUP BY 1")) {
        auto const status = row[0].as<std::string>();
        auto const count = row[1].as<int>();
        if (status == "completed") census.completed = count;
        else if (status == "compensated") census.compensated = count;
        else if (status == "stuck") census.stuck = count;
        else census.running += count;
    }
    return census;
}

std::int64_t shop_databases::count_unsent()
{
    return sum_over_services("SELECT count(*) FROM skald.outbox");
}

std::int64_t shop_databases::activity()
{
    return sum_over_services("SELECT (SELECT count(*) + coalesce(sum(attempts), 0) FROM skald.idempotency)"
                             " + (SELECT count(*) FROM skald.progress) + (SELECT count(*) FROM skald.parked)");
}

std::optional<std::chrono::milliseconds> shop_databases::orders_took()
{
    pqxx::nontransaction tx{at(orders)};
    auto const row =
        tx.exec("SELECT (extract(epoch FROM max(finished_at) - min(created_at)) * 1000)::bigint FROM skald.saga"
                " HAVING bool_and(finished_at IS NOT NULL)");
    if (row.empty()) return std::nullopt;
    return std::chrono::milliseconds{row[0][0].as<std::int64_t>()};
}

std::vector<std::string> shop_databases::describe_unfinished(int most)
{
    std::vector<std::string> lines;
    pqxx::nontransaction tx{at(orders)};
    for (auto const& row : tx.exec(unfinished_sagas + std::to_string(most)))
        lines.push_back(
            fmt::format("{} {} ({}); steps: {}", row[0].c_str(), row[1].c_str(), row[2].c_str(), row[3].c_str()));
    return lines;
}

std::int64_t shop_databases::sum_over_services(std::string const& query)
{
    std::int64_t sum = 0;
    for (auto& connection : connections_) {
        pqxx::nontransaction tx{connection};
        sum += tx.exec(query)[0][0].as<std::int64_t>();
    }
    return sum;
}

}  // namespace skald::rig
