// What must be true of an order, whatever broke on its way.
#include "run.hpp"

namespace skald::crash {

using namespace std::chrono_literals;

/// Who is told that it had no effect must not find one.
void run::watch_answers()
{
    if (!customer_) return;
    auto const history = customer_->history();
    for (; answers_looked_at_ < history.size(); ++answers_looked_at_) {
        auto const& told = history[answers_looked_at_];
        if (!told.is_promise()) continue;
        std::this_thread::sleep_for(50ms);  // what is in doubt now may commit a moment later
        if (value(orders, "SELECT count(*) FROM skald.idempotency WHERE key = " + sql_text(key_)) != "0")
            result_.broken.push_back("I3 it was done, and the client was told " + std::to_string(told.status) + ' ' +
                                     told.body);
        customer_->go_on();
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
    if (!is_forgotten(goes_.besides)) judge_answers();
    judge_orders();
    judge_payments();
    judge_shipping();
    judge_operator();
    if (is_forgotten(goes_.besides)) judge_forgetting();
}

void run::judge_answers()
{
    if (!customer_) return;
    auto const first = customer_->answer();
    if (!first) return result_.broken.push_back("I6 the client has no answer");
    auto const again = customer_->ask_again();
    expect("I4", "the answer to the same request again", std::to_string(again.status) + ' ' + again.body,
           std::to_string(first->status) + ' ' + first->body);
}

void run::judge_orders()
{
    auto const id = sql_text(person_);
    if (!is_forgotten(goes_.besides))
        expect("I6", "the saga", value(orders, "SELECT status FROM skald.saga WHERE key = " + sql_text(key_)),
               std::string{goes_.ends});
    if (is_made_up(goes_.besides)) return;
    expect("I1", "orders of this customer", value(orders, "SELECT count(*) FROM customer_order WHERE customer = " + id),
           "1");
    expect("I2", "the order",
           value(orders, "SELECT string_agg(status, ' ') FROM customer_order WHERE customer = " + id),
           goes_.ends == "completed" ? "confirmed"
           : goes_.ends == "stuck"   ? "pending"
                                     : "cancelled");
}

void run::judge_payments()
{
    auto const kinds =
        "SELECT coalesce(string_agg(kind, ' ' ORDER BY xmin::text::bigint), '') FROM charge WHERE customer = " +
        sql_text(person_);
    std::string expected = goes_.charges > 0 ? "charge" : "";
    if (goes_.refunds > 0) expected += " refund";
    expect("I1 I11", "charges and refunds, in order", value(payments, kinds), expected);
    expect("I5", "the wallet", value(payments, "SELECT cents FROM wallet WHERE customer = " + sql_text(person_)),
           std::to_string(goes_.money - price * (goes_.charges - goes_.refunds)));
    expect("I13", "parked deliveries",
           value(payments, "SELECT count(*) FROM skald.parked WHERE key = " + sql_text(key_) +
                               " OR message_id = " + sql_text("malformed " + key_)),
           goes_.besides == disturbance::malformed || goes_.ends == "stuck" ? "1" : "0");
}

void run::judge_shipping()
{
    expect("I1 I2", "shipments", value(shipping, "SELECT count(*) FROM shipment WHERE sku = " + sql_text(item_)),
           std::to_string(goes_.shipments));
    expect("I5", "the stock", value(shipping, "SELECT free FROM stock WHERE sku = " + sql_text(item_)),
           std::to_string(goes_.stock - goes_.shipments));
}

}  // namespace skald::crash
