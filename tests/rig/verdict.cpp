#include "rig/verdict.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace skald::rig {
namespace {

using nlohmann::json;

// --- Where the rows come from ---------------------------------------------------------------------------------------

struct copied_table
{
    char const* name;     // the temporary table in the orders database
    char const* columns;  // its columns
    std::size_t service;  // whose database has the rows
    char const* query;    // the rows
};

constexpr copied_table copied_tables[]{
    {"charge", "order_id text, customer text, cents bigint, kind text", 1,
     "SELECT order_id::text, customer::text, cents, kind::text FROM charge"},
    {"wallet_after", "customer text, cents bigint", 1, "SELECT customer::text, cents FROM wallet"},
    {"shipment", "order_id text, sku text, quantity bigint", 2,
     "SELECT order_id::text, sku::text, quantity FROM shipment"},
    {"stock_after", "sku text, free bigint", 2, "SELECT sku::text, free FROM stock"},
};

// One row for each accepted order, with what the shop recorded about it: null where there is nothing. A saga of another
// home may have ended before the shop heard of its order.
constexpr char const* outcome_table = R"(
    CREATE TEMP TABLE outcome AS
    SELECT a.key, a.order_id, coalesce(nullif(a.elsewhere, ''), s.status::text) AS saga,
           coalesce(o.status::text, CASE WHEN a.elsewhere = 'compensated' THEN 'cancelled' END) AS order_status,
           (SELECT count(*) FROM charge c WHERE c.order_id = a.order_id AND c.kind = 'charge') AS charges,
           (SELECT count(*) FROM charge c WHERE c.order_id = a.order_id AND c.kind = 'refund') AS refunds,
           (SELECT count(*) FROM shipment h WHERE h.order_id = a.order_id) AS shipments
      FROM accepted a
      LEFT JOIN skald.saga s ON s.scope = '' AND s.key = a.key
      LEFT JOIN customer_order o ON o.id::text = a.order_id)";

// --- Figures --------------------------------------------------------------------------------------------------------

struct counted
{
    char const* name;
    char const* query;
    bool is_sum;
};

constexpr counted counted_figures[]{
    {"orders accepted", "SELECT count(*) FROM accepted", false},
    {"sagas completed", "SELECT count(*) FROM skald.saga WHERE status = 'completed'", false},
    {"sagas compensated", "SELECT count(*) FROM skald.saga WHERE status = 'compensated'", false},
    {"charges", "SELECT count(*) FROM charge WHERE kind = 'charge'", false},
    {"refunds", "SELECT count(*) FROM charge WHERE kind = 'refund'", false},
    {"shipments", "SELECT count(*) FROM shipment", false},
    {"money before", "SELECT coalesce(sum(cents), 0)::bigint FROM wallet_before", true},
    {"money after", "SELECT coalesce(sum(cents), 0)::bigint FROM wallet_after", true},
    {"charged", "SELECT coalesce(sum(cents), 0)::bigint FROM charge WHERE kind = 'charge'", true},
    {"refunded", "SELECT coalesce(sum(cents), 0)::bigint FROM charge WHERE kind = 'refund'", true},
    {"stock before", "SELECT coalesce(sum(free), 0)::bigint FROM stock_before", true},
    {"stock after", "SELECT coalesce(sum(free), 0)::bigint FROM stock_after", true},
    {"shipped", "SELECT coalesce(sum(quantity), 0)::bigint FROM shipment", true},
};

// --- Checks: each query selects, as text, what must not be ----------------------------------------------------------

struct check
{
    char const* name;
    char const* offenders;
};

constexpr check checks[]{
    {"charged twice", "SELECT order_id FROM charge WHERE kind = 'charge' GROUP BY order_id HAVING count(*) > 1"},

    {"refunded twice", "SELECT order_id FROM charge WHERE kind = 'refund' GROUP BY order_id HAVING count(*) > 1"},

    {"shipped twice", "SELECT order_id FROM shipment GROUP BY order_id HAVING count(*) > 1"},

    {"lost",  // accepted, and then there is no saga or no order
     "SELECT key FROM outcome WHERE saga IS NULL OR order_status IS NULL"},

    {"stuck",
     "SELECT key || ' is ' || status::text FROM skald.saga WHERE status NOT IN ('completed', 'compensated') UNION ALL "
     "SELECT key || ' is ' || elsewhere FROM accepted WHERE elsewhere NOT IN ('', 'completed', 'compensated')"},

    {"completed in part",
     R"(SELECT format('%s: order %s, %s charges, %s refunds, %s shipments', key, order_status, charges, refunds,
                      shipments)
          FROM outcome
         WHERE saga = 'completed'
           AND (order_status, charges, refunds, shipments) IS DISTINCT FROM ('confirmed', 1, 0, 1))"},

    {"compensated in part",
     R"(SELECT format('%s: order %s, %s charges, %s refunds, %s shipments', key, order_status, charges, refunds,
                      shipments)
          FROM outcome
         WHERE saga = 'compensated'
           AND (order_status IS DISTINCT FROM 'cancelled' OR charges <> refunds OR shipments <> 0))"},

    {"order and saga disagree",
     R"(SELECT format('%s: saga %s, order %s', key, saga, order_status)
          FROM outcome
         WHERE (saga = 'completed') <> (order_status = 'confirmed')
            OR (saga = 'compensated') <> (order_status = 'cancelled'))"},

    {"sagas told wrongly over HTTP",  // by GET /sagas/<key>, which the clients call at the end
     R"(SELECT format('%s: told %s, is %s', key, a.told, saga)
          FROM outcome JOIN accepted a USING (key)
         WHERE a.told <> '' AND a.told IS DISTINCT FROM saga)"},

    {"other order than asked for",
     R"(SELECT a.key
          FROM accepted a JOIN customer_order o ON o.id::text = a.order_id
         WHERE (o.customer, o.sku, o.quantity, o.cents) IS DISTINCT FROM (a.customer, a.sku, a.quantity, a.cents))"},

    {"wrong amount or customer",
     R"(SELECT c.kind || ' of ' || c.order_id
          FROM charge c JOIN accepted a USING (order_id)
         WHERE (c.customer, c.cents) IS DISTINCT FROM (a.customer, a.cents))"},

    {"wrong goods shipped",
     R"(SELECT h.order_id
          FROM shipment h JOIN accepted a USING (order_id)
         WHERE (h.sku, h.quantity) IS DISTINCT FROM (a.sku, a.quantity))"},

    {"done for nobody",  // an effect, an order or a saga that belongs to no accepted order
     R"(SELECT c.kind || ' of ' || c.order_id FROM charge c WHERE c.order_id NOT IN (SELECT order_id FROM accepted)
        UNION ALL
        SELECT 'shipment of ' || order_id FROM shipment WHERE order_id NOT IN (SELECT order_id FROM accepted)
        UNION ALL
        SELECT 'order ' || id FROM customer_order WHERE id::text NOT IN (SELECT order_id FROM accepted)
        UNION ALL
        SELECT 'saga ' || key FROM skald.saga WHERE key NOT IN (SELECT key FROM accepted))"},

    {"wallets that do not add up",  // before = after + charged - refunded, for each customer
     R"(SELECT format('%s: %s before, %s after', customer, b.cents, a.cents)
          FROM wallet_before b
          FULL JOIN wallet_after a USING (customer)
          LEFT JOIN (SELECT customer, sum(CASE kind WHEN 'charge' THEN cents ELSE -cents END) AS cents
                       FROM charge GROUP BY customer) c USING (customer)
         WHERE b.cents IS DISTINCT FROM a.cents + coalesce(c.cents, 0))"},

    {"stock that does not add up",  // before = after + shipped, for each sku
     R"(SELECT format('%s: %s before, %s after', sku, b.free, a.free)
          FROM stock_before b
          FULL JOIN stock_after a USING (sku)
          LEFT JOIN (SELECT sku, sum(quantity) AS quantity FROM shipment GROUP BY sku) s USING (sku)
         WHERE b.free IS DISTINCT FROM a.free + coalesce(s.quantity, 0))"},
};

// What the ledger of a gateway and the orders say of each other. What was declined moved nothing.
constexpr check checks_of_gateway[]{
    {"charged twice by the gateway",
     "SELECT reference FROM gateway_charge WHERE status = 'succeeded' GROUP BY reference HAVING count(*) > 1"},

    {"completed, and not charged by the gateway",
     R"(SELECT a.key
          FROM outcome o JOIN accepted a USING (key)
         WHERE o.saga = 'completed'
           AND NOT EXISTS (SELECT FROM gateway_charge g
                            WHERE (g.reference, g.status, g.amount, g.refunded) = (o.order_id, 'succeeded', a.cents, 0)))"},

    {"compensated, and not refunded by the gateway",
     R"(SELECT o.key
          FROM outcome o JOIN gateway_charge g ON g.reference = o.order_id AND g.status = 'succeeded'
         WHERE o.saga = 'compensated' AND g.refunded <> g.amount)"},

    {"charged by the gateway for nobody",
     "SELECT id FROM gateway_charge WHERE reference NOT IN (SELECT order_id FROM accepted)"},
};

// What must be empty in each service's own database.
constexpr check checks_everywhere[]{
    // Except for what the storm has put into the queues: that has to be there.
    {"parked", "SELECT format('%s:%s %s (%s)', key, step, reason, error) FROM skald.parked "
               "WHERE message_id NOT LIKE 'forged-%'"},
    {"messages never sent", "SELECT format('%s to %s (%s)', idempotency_key, destination, error) FROM skald.outbox"},
};

// --- Running them ---------------------------------------------------------------------------------------------------

void fill_table(pqxx::work& tx, std::string_view name, std::string_view columns, std::string const& rows)
{
    tx.exec(fmt::format("CREATE TEMP TABLE {} AS SELECT * FROM json_to_recordset({}) AS row({})", name, tx.quote(rows),
                        columns));
    tx.exec(fmt::format("ANALYZE {}", name));
}

json accepted_row(planned_order const& order, std::string const& id, std::string const& told,
                  std::string const& elsewhere)
{
    return {{"key", order.key},           {"order_id", id},      {"told", told},
            {"elsewhere", elsewhere},     {"sku", order.sku},    {"customer", order.customer},
            {"quantity", order.quantity}, {"cents", order.cents}};
}

json accepted_rows(order_plan const& plan, std::vector<order_record> const& records,
                   std::vector<order_elsewhere> const& elsewhere)
{
    json rows = json::array();
    for (std::size_t i = 0; i < records.size(); ++i)
        if (records[i].accepted) rows.push_back(accepted_row(plan.orders[i], records[i].order_id, records[i].told, ""));
    for (auto const& one : elsewhere) rows.push_back(accepted_row(one.order, one.order.key, "", one.saga));
    return rows;
}

json amount_rows(std::map<std::string, std::int64_t> const& amounts, char const* name, char const* amount)
{
    json rows = json::array();
    for (auto const& [who, how_much] : amounts) rows.push_back({{name, who}, {amount, how_much}});
    return rows;
}

void collect(pqxx::work& tx, shop_databases& databases, order_plan const& plan,
             std::vector<order_record> const& records, std::vector<order_elsewhere> const& elsewhere)
{
    fill_table(
        tx, "accepted",
        "key text, order_id text, told text, elsewhere text, customer text, sku text, quantity bigint, cents bigint",
        accepted_rows(plan, records, elsewhere).dump());
    fill_table(tx, "wallet_before", "customer text, cents bigint",
               amount_rows(plan.wallets, "customer", "cents").dump());
    fill_table(tx, "stock_before", "sku text, free bigint", amount_rows(plan.stock, "sku", "free").dump());
    for (auto const& table : copied_tables) {
        pqxx::nontransaction source{databases.at(table.service)};
        auto const rows = source.exec(fmt::format("SELECT coalesce(json_agg(t), '[]')::text FROM ({}) t", table.query));
        fill_table(tx, table.name, table.columns, rows[0][0].as<std::string>());
    }
    tx.exec("CREATE INDEX ON charge (order_id)");
    tx.exec("CREATE INDEX ON shipment (order_id)");
    tx.exec(outcome_table);
}

template <typename Transaction>
void run_check(Transaction& tx, check const& what, finding& found)
{
    auto const count = tx.exec(fmt::format("SELECT count(*) FROM ({}) t", what.offenders));
    found.count += count[0][0].template as<std::int64_t>();
    if (count[0][0].template as<std::int64_t>() == 0) return;
    auto const most = examples_max - static_cast<int>(found.examples.size());
    for (auto const& row : tx.exec(fmt::format("SELECT * FROM ({}) t ORDER BY 1 LIMIT {}", what.offenders, most)))
        found.examples.emplace_back(row[0].c_str());
}

}  // namespace

bool verdict::passed() const
{
    return std::all_of(findings.begin(), findings.end(), [](auto const& one) { return one.count == 0; });
}

std::int64_t verdict::figure_named(std::string const& name) const
{
    auto const one = std::find_if(figures.begin(), figures.end(), [&](auto const& f) { return f.name == name; });
    return one == figures.end() ? 0 : one->value;
}

std::int64_t verdict::found(std::string const& name) const
{
    auto const one = std::find_if(findings.begin(), findings.end(), [&](auto const& f) { return f.name == name; });
    return one == findings.end() ? 0 : one->count;
}

verdict judge(shop_databases& databases, order_plan const& plan, std::vector<order_record> const& records,
              std::vector<order_elsewhere> const& elsewhere, std::optional<json> const& charges)
{
    verdict result;
    {
        pqxx::work tx{databases.at(0)};  // never committed: the temporary tables go with it
        collect(tx, databases, plan, records, elsewhere);
        for (auto const& one : counted_figures)
            result.figures.push_back({one.name, tx.exec(one.query)[0][0].as<std::int64_t>(), one.is_sum});
        for (auto const& one : checks) run_check(tx, one, result.findings.emplace_back(finding{one.name, 0, {}}));
        if (charges) {
            fill_table(tx, "gateway_charge", "id text, amount bigint, reference text, status text, refunded bigint",
                       charges->dump());
            for (auto const& one : checks_of_gateway)
                run_check(tx, one, result.findings.emplace_back(finding{one.name, 0, {}}));
        }
    }
    for (auto const& one : checks_everywhere) {
        auto& found = result.findings.emplace_back(finding{one.name, 0, {}});
        for (std::size_t service = 0; service < service_count; ++service) {
            pqxx::nontransaction tx{databases.at(service)};
            run_check(tx, one, found);
        }
    }
    return result;
}

}  // namespace skald::rig
