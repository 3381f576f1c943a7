// What must be true of an order, whatever failed on its way.
#include "run.hpp"

namespace skald::crash {

using namespace std::chrono_literals;

/// A client that is told that its request had no effect must not find one.
void run::watch_answers()
{
    for (auto& one : placed_)
        if (one.client) watch_answers(one);
}

void run::watch_answers(placed& order)
{
    auto const history = order.client->history();
    for (; order.answers_looked_at < history.size(); ++order.answers_looked_at) {
        auto const& told = history[order.answers_looked_at];
        if (!told.is_promise()) continue;
        std::this_thread::sleep_for(50ms);  // what is in doubt now may commit a moment later
        if (value(orders, "SELECT count(*) FROM skald.idempotency WHERE key = " + sql_text(order.key)) != "0")
            result_.broken.push_back("I3 it was done, and the client was told " + std::to_string(told.status) + ' ' +
                                     told.body);
        order.client->go_on();
    }
}

void run::expect(std::string_view invariant, std::string const& what, std::string const& found,
                 std::string const& expected)
{
    if (found != expected)
        result_.broken.push_back(std::string{invariant} + ' ' + what + ": " + found + " instead of " + expected);
}

void run::judge()
{
    for (auto const& one : placed_) {
        if (!is_forgotten(goes_.besides)) judge_answers(one);
        judge_orders(one);
        judge_payments(one);
        judge_shipping(one);
        if (!one.goes->gateway.empty()) judge_gateway(one);
        if (one.goes->waits_ms > 0) judge_wait(one);
    }
    judge_operator();
    if (is_forgotten(goes_.besides)) judge_forgetting();
}

void run::judge_answers(placed const& order)
{
    if (!order.client) return;
    auto const first = order.client->answer();
    if (!first) return result_.broken.push_back("I6 the client has no answer");
    auto const again = order.client->ask_again();
    auto const given = std::to_string(first->status) + ' ' + first->body;
    expect("I4", "the answer to the same request again", std::to_string(again.status) + ' ' + again.body, given);
    if (is_forgotten(goes_.besides)) return;
    // The second may have come from the service's memory, which does not prove what others would receive.
    expect("I4", "the answer that is stored",
           value(orders, "SELECT coalesce(min(status_code || ' ' || convert_from(body, 'UTF8')), 'none') FROM "
                         "skald.response WHERE key = " +
                             sql_text(order.key)),
           given);
}

void run::judge_orders(placed const& order)
{
    auto const id = sql_text(order.person);
    if (!is_forgotten(goes_.besides))
        expect("I6", "the saga", value(orders, "SELECT status FROM skald.saga WHERE key = " + sql_text(order.key)),
               std::string{order.goes->ends});
    if (is_made_up(goes_.besides)) return;
    expect("I1", "orders of this customer", value(orders, "SELECT count(*) FROM customer_order WHERE customer = " + id),
           "1");
    expect("I2", "the order",
           value(orders, "SELECT string_agg(status, ' ') FROM customer_order WHERE customer = " + id),
           order.goes->ends == "completed" ? "confirmed"
           : order.goes->ends == "stuck"   ? "pending"
                                           : "cancelled");
}

void run::judge_payments(placed const& order)
{
    auto const kinds =
        "SELECT coalesce(string_agg(kind, ' ' ORDER BY xmin::text::bigint), '') FROM charge WHERE customer = " +
        sql_text(order.person);
    std::string expected = order.goes->charges > 0 ? "charge" : "";
    if (order.goes->refunds > 0) expected += " refund";
    expect("I1 I11", "charges and refunds, in order", value(payments, kinds), expected);
    expect("I5", "the wallet", value(payments, "SELECT cents FROM wallet WHERE customer = " + sql_text(order.person)),
           std::to_string(order.goes->money - price * (order.goes->charges - order.goes->refunds)));
    expect("I13", "parked deliveries",
           value(payments, "SELECT count(*) FROM skald.parked WHERE key = " + sql_text(order.key) +
                               " OR message_id = " + sql_text("malformed " + order.key)),
           goes_.besides == disturbance::malformed || order.goes->ends == "stuck" ? "1" : "0");
}

/// A wait has ended once, with what was said or with its time, and holds nothing.
void run::judge_wait(placed const& order)
{
    auto const id = sql_text(order.key);
    bool const is_told = order.goes->besides != disturbance::none;
    expect("I21", "waits that have not ended", value(payments, "SELECT count(*) FROM skald.started WHERE key = " + id),
           "0");
    expect("I21", "signals", value(payments, "SELECT count(*) FROM skald.signal WHERE key = " + id),
           is_told ? "1" : "0");
    expect(
        "I21", "what was noted of the wait",
        value(payments,
              "SELECT coalesce(string_agg(what, ' ' ORDER BY xmin::text::bigint), '') FROM waited WHERE customer = " +
                  sql_text(order.person)),
        is_told ? "begun approved" : "begun abandoned");
}

void run::judge_shipping(placed const& order)
{
    expect("I1 I2", "shipments", value(shipping, "SELECT count(*) FROM shipment WHERE sku = " + sql_text(order.item)),
           std::to_string(order.goes->shipments));
    expect("I5", "the stock", value(shipping, "SELECT free FROM stock WHERE sku = " + sql_text(order.item)),
           std::to_string(order.goes->stock - order.goes->shipments));
}

}  // namespace skald::crash
