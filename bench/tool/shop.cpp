#include "shop.hpp"

#include "bench_tool_sql.hpp"

#include "rig/shop_databases.hpp"
#include "rig/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using skald::rig::order_plan;

constexpr int shop_sagas_unless_told = 5'000;
constexpr int shop_statement = 500;  // sagas that one statement starts
constexpr auto look_at_shop_every = 50ms;
constexpr auto shop_patience = 60s;  // for what is left to send, and past the limit

constexpr std::int64_t price_cents = 1'200;
constexpr std::int64_t wallet_cents = 1'000'000'000'000, too_many_cents = 2 * wallet_cents;
constexpr int stock_free = 1'000'000'000, too_many_pieces = 2 * stock_free;

/// Numbers from 1, the n-th as frequent as 1 / n^exponent.
class zipf_numbers
{
public:
    zipf_numbers(int count, double exponent)
    {
        std::vector<double> weights;
        for (int n = 1; n <= count; ++n) weights.push_back(std::pow(n, -exponent));
        numbers_ = std::discrete_distribution<int>(weights.begin(), weights.end());
    }
    int next(std::mt19937_64& random) { return numbers_(random) + 1; }

private:
    std::discrete_distribution<int> numbers_;
};

skald::rig::addresses connected_to(bench_databases const& databases)
{
    skald::rig::addresses where;
    where.orders_database = databases.url(orders);
    where.payments_database = databases.url(payments);
    where.shipping_database = databases.url(shipping);
    return where;
}

std::array<contention_counts, 3> count_contention(bench_databases& databases)
{
    std::array<contention_counts, 3> seen;
    for (std::size_t i = 0; i < seen.size(); ++i) {
        auto const row = ask(databases.at(i), sql::contention_counts)[0];
        seen.at(i) = {row[0].as<std::int64_t>(), row[1].as<std::int64_t>(), row[2].as<std::int64_t>(),
                      row[3].as<std::int64_t>()};
    }
    return seen;
}

std::int64_t deadlocks_in(std::array<contention_counts, 3> const& contentions)
{
    return contentions[0].deadlocks + contentions[1].deadlocks + contentions[2].deadlocks;
}

std::int64_t under_way(bench_databases& databases)
{
    return ask(databases.at(orders), sql::under_way_in_shop)[0][0].as<std::int64_t>();
}

void start_all(bench_databases& databases, order_plan const& plan, bool by_function)
{
    for (std::size_t from = 0; from < plan.orders.size(); from += shop_statement) {
        auto const to = std::min(plan.orders.size(), from + shop_statement);
        auto data = nlohmann::json::array();
        for (auto i = from; i < to; ++i) {
            auto const& o = plan.orders[i];
            data.push_back({{"id", o.key},
                            {"customer", o.customer},
                            {"sku", o.sku},
                            {"quantity", o.quantity},
                            {"cents", o.cents}});
        }
        start_sagas(databases.at(orders), shop_order, data, by_function);
    }
}

/// Starts them all, waits for their ends or the limit, and reads the clocks.
void run_load(bench const& b, bench_databases& databases, fleet const& services, order_plan const& plan,
              shop_figures& made)
{
    machine const meters{databases, broker_port(b.chosen, made.asked.who)};
    auto const used_before = meters.cpu(services);
    auto const earlier_deadlocks = deadlocks_in(count_contention(databases));
    auto const began = ask(databases.at(orders), sql::server_now)[0][0].as<std::string>();
    auto const start = clock::now();
    auto const limit = std::chrono::seconds{b.chosen.limit_seconds};
    start_all(databases, plan, b.chosen.start_by_function);

    bool first_second = true, too_late = false;
    services.wait_for(made.asked.label.c_str(), limit + shop_patience, look_at_shop_every, [&] {
        if (first_second && clock::now() >= start + 1s) {
            made.first_deadlocks = deadlocks_in(count_contention(databases)) - earlier_deadlocks;
            first_second = false;
        }
        too_late = clock::now() >= start + limit;
        return too_late || under_way(databases) == 0;
    });
    std::chrono::duration<double> const waited = clock::now() - start;
    made.cpu = meters.cpu(services) - used_before;
    made.ended = made.sagas - under_way(databases);
    made.seconds = made.ended < made.sagas ? waited.count()
                                           : ask(databases.at(orders), sql::shop_seconds, began)[0][0].as<double>();
    made.per_second = static_cast<double>(made.ended) / made.seconds;
    made.peak_rss_mib = meters.peak_rss_mib(services);
    if (!too_late)
        services.wait_for("sending what is left", shop_patience, look_at_shop_every,
                          [&] { return !is_anything_unsent(databases); });
}

// If the limit came first, unfinished sagas are no error: only what has ended can be judged.
void check_shop_of(shop_figures const& made, bench_databases& databases, order_plan const& plan)
{
    std::vector<skald::rig::order_record> records(plan.orders.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
        records[i].accepted = true;
        records[i].order_id = plan.orders[i].key;
    }
    skald::rig::shop_databases shop{connected_to(databases)};
    auto const verdict = skald::rig::judge(shop, plan, records);
    bool const all_ended = made.ended == made.sagas;
    std::set<std::string> const unfinished{"lost", "stuck", "messages never sent"};
    for (auto const& found : verdict.findings)
        if (found.count > 0 && (all_ended || !unfinished.contains(found.name)))
            throw std::runtime_error{fmt::format("wrong: {} {}, for instance {}: the figures mean nothing", found.count,
                                                 found.name, found.examples.front())};
    auto const completed = verdict.figure_named("sagas completed");
    auto const compensated = verdict.figure_named("sagas compensated");
    auto const to_compensate = made.declined + made.broke;
    if (compensated > to_compensate || completed > made.sagas - to_compensate ||
        (all_ended && completed + compensated != made.sagas))
        throw std::runtime_error{fmt::format("wrong: {} sagas completed and {} compensated, of {} and {}", completed,
                                             compensated, made.sagas - to_compensate, to_compensate)};
}

}  // namespace

order_plan plan_shop(options const& chosen, shop_request const& asked)
{
    std::mt19937_64 random{1};
    key_maker keys{true, std::random_device{}()};
    zipf_numbers customers{std::max(asked.customers, 1), chosen.zipf}, skus{std::max(asked.skus, 1), chosen.zipf};
    order_plan plan;
    for (int i = 0, count = chosen.sagas > 0 ? chosen.sagas : shop_sagas_unless_told; i < count; ++i) {
        skald::rig::planned_order o;
        o.key = keys.make();
        o.customer = fmt::format("customer-{}", asked.shared ? customers.next(random) : i + 1);
        o.sku = fmt::format("sku-{}", asked.shared ? skus.next(random) : i + 1);
        auto const lot = std::int64_t{i} * 37 % 100;  // each value once in a hundred, neighbours far apart
        bool const declined = lot < chosen.declined_percent;
        bool const broke = !declined && lot < chosen.declined_percent + chosen.broke_percent;
        o.quantity = declined ? too_many_pieces : 1;
        o.cents = broke ? too_many_cents : price_cents;
        plan.wallets[o.customer] = wallet_cents;
        plan.stock[o.sku] = stock_free;
        plan.orders.push_back(std::move(o));
    }
    return plan;
}

shop_figures run_shop(bench const& b, bench_databases& databases, shop_request const& asked)
{
    auto const plan = plan_shop(b.chosen, asked);
    skald::rig::shop_databases{connected_to(databases)}.fill(plan);
    shop_figures made;
    made.asked = asked;
    made.sagas = static_cast<std::int64_t>(plan.orders.size());
    made.declined = std::ranges::count(plan.orders, too_many_pieces, &skald::rig::planned_order::quantity);
    made.broke = std::ranges::count(plan.orders, too_many_cents, &skald::rig::planned_order::cents);
    databases.settle_down();
    databases.disconnect_all();
    auto const before = count_contention(databases);
    fleet services{b.chosen, b.interruptions, databases, {asked.who, b.chosen.tcp, true, asked.processes}};
    run_load(b, databases, services, plan, made);
    services.stop(made.ended < made.sagas);
    databases.disconnect_all();
    made.contentions = count_contention(databases);
    for (std::size_t i = 0; i < before.size(); ++i) {
        made.contentions.at(i).commits -= before.at(i).commits;
        made.contentions.at(i).rollbacks -= before.at(i).rollbacks;
        made.contentions.at(i).deadlocks -= before.at(i).deadlocks;
    }
    check_shop_of(made, databases, plan);
    return made;
}

}  // namespace skald_bench
