#include "run.hpp"

#include <nlohmann/json.hpp>

#include <sstream>

namespace skald::crash {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 10ms;

// How long a fault is waited for that should have struck by the time its order has ended: acks and reports come later.
constexpr auto late_hit = 400ms;

std::string const steps = "create-order@orders=compensatable charge-payment@payments=compensatable "
                          "arrange-shipping@shipping=pivot confirm-order@orders=retriable";

std::string sql_text(std::string_view text)
{
    return '\'' + std::string{text} + '\'';
}

}  // namespace

run::run(shop_world& shop, plan what, int number, std::chrono::milliseconds patience)
    : shop_{shop}, goes_{*what.goes}, patience_{patience}, key_{"order-" + std::to_string(number)},
      person_{std::string{goes_.habit} + "-" + std::to_string(number)}, item_{"lamp-" + std::to_string(number)},
      result_{std::move(what), {}, {}, {}, {}}
{}

result run::execute()
{
    auto const began = clock::now();
    prepare();
    shop_.arm(result_.what.service, result_.what.program());
    if (goes_.besides == disturbance::malformed) send_malformed();
    if (goes_.besides == disturbance::overtaken) overtake();
    else
        customer_ = std::make_unique<customer>(
            shop_, key_,
            nlohmann::json{{"customer", person_}, {"sku", item_}, {"quantity", 1}, {"cents", price}}.dump());

    bool ended = wait_for(&run::is_settled, patience_);
    if (ended && !result_.what.point.empty() && wait_for(&run::has_sprung, late_hit))
        ended = wait_for(&run::is_settled, patience_);
    result_.sprang = has_sprung();
    for (std::size_t i = 0; i < services.size(); ++i) {
        result_.hits[i] = shop_.arms(i).hits();
        shop_.arms(i).disarm();
    }
    if (!ended) result_.broken.push_back("I6 it does not end: " + where_it_is());
    else judge();
    shop_.send_standins_home();
    result_.took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began);
    return std::move(result_);
}

void run::prepare()
{
    shop_.database(payments).ask("INSERT INTO wallet VALUES (" + sql_text(person_) + ", " +
                                 std::to_string(goes_.money) + ')');
    shop_.database(shipping).ask("INSERT INTO stock VALUES (" + sql_text(item_) + ", " + std::to_string(goes_.stock) +
                                 ')');
    if (goes_.besides == disturbance::unrouted) {
        shop_.hands().unbind("skald.payments", "skald", "payments");
        shop_.hands().unbind("e2e.capture", "skald", "payments");
        is_bound_ = false;
    }
    if (goes_.besides == disturbance::busy) {
        blocker_connection_ = std::make_unique<pqxx::connection>(shop_.database(payments).url());
        blocker_ = std::make_unique<pqxx::work>(*blocker_connection_);
        blocker_->exec("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', " + sql_text(key_) +
                       ", 'charge-payment')");
    }
}

void run::send_malformed()
{
    testing::raw_message odd;
    odd.destination = "payments";
    odd.set_type("charge-payment");
    odd.set_id("malformed " + key_);
    odd.body = "not JSON: " + key_;
    shop_.hands().send(odd);
}

/// Whatever the way does besides, once its moment has come.
void run::disturb()
{
    repeat_captured();
    if (was_disturbed_) return;
    if (goes_.besides == disturbance::busy &&
        value(
            payments,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") !=
            "0") {
        // The claim waits for this transaction, and must give up waiting before it ends.
        was_disturbed_ = testing::eventually(
            [&] {
                shop_.look_after();
                return value(payments, "SELECT count(*) FROM skald.outbox WHERE idempotency_key = '" + key_ +
                                           ":charge-payment'") != "0" ||
                       value(payments, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                                       "wait_event_type = 'Lock'") == "0";
            },
            5s);
        blocker_->abort();
        blocker_.reset();
    }
    if (goes_.besides == disturbance::overtaken &&
        value(
            payments,
            "SELECT count(*) FROM skald.idempotency WHERE status <> 'started' AND step LIKE '%.compensate' AND key = " +
                sql_text(key_)) != "0") {
        send_made_up("charge-payment", "forward");
        was_disturbed_ = true;
    }
    // payments binds its queue itself when it starts.
    if (goes_.besides == disturbance::unrouted &&
        value(orders, "SELECT (SELECT count(*) FROM skald.outbox WHERE attempts > 0 AND idempotency_key = '" + key_ +
                          ":charge-payment') + (SELECT count(*) FROM skald.progress WHERE key = " + sql_text(key_) +
                          ')') != "0") {
        shop_.hands().bind("skald.payments", "skald", "payments");
        shop_.hands().bind("e2e.capture", "skald", "payments");
        was_disturbed_ = is_bound_ = true;
    }
}

/// What the broker carried is looked at: whose transaction did not commit is a ghost. And where the way says so, it is
/// carried a second time, at once.
void run::repeat_captured()
{
    for (auto& message : shop_.hands().take_captured()) {
        if (!message.id().starts_with(key_ + ':')) continue;
        bool const is_new = ++seen_messages_[message.id() + message.destination + message.body] == 1;
        auto const type = message.type();
        auto const parent = [&](std::size_t service, std::string const& step) {
            if (value(service, "SELECT count(*) FROM skald.idempotency WHERE key = " + sql_text(key_) +
                                   " AND step = " + sql_text(step)) == "0")
                result_.broken.push_back("I9 a ghost: " + message.id() + " was sent, and " + step +
                                         " has not committed");
        };
        if (type == "charge-payment") parent(orders, "create-order");
        if (type == "arrange-shipping") parent(payments, "charge-payment");
        if (type == "confirm-order") parent(shipping, "arrange-shipping");
        if (is_new && goes_.besides == disturbance::twice) shop_.hands().send(message);
    }
}

bool run::wait_for(bool (run::*condition)(), std::chrono::milliseconds longest)
{
    for (auto const until = clock::now() + longest; clock::now() < until; std::this_thread::sleep_for(tick)) {
        shop_.look_after();
        disturb();
        watch_answers();
        if ((this->*condition)()) return true;
    }
    return false;
}

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

bool run::has_sprung()
{
    return shop_.arms(result_.what.service).sprang();
}

/// The fault is written down a moment before it can be seen.
bool run::is_about_to_show()
{
    auto const& action = result_.what.action;
    if ((action != "kill" && action != "stop") || !has_sprung()) return false;
    return shop_.what_happened().find(action == "kill" ? "ended" : "stopped") == std::string::npos;
}

bool run::is_settled()
{
    return shop_.look_after() && !is_about_to_show() && is_ended() && is_quiet();
}

bool run::is_ended()
{
    if (customer_ && !customer_->answer()) return false;
    auto const status = shop_.database(orders).ask("SELECT status::text FROM skald.saga WHERE key = " + sql_text(key_));
    if (status.empty() || (status[0][0] != "completed" && status[0][0] != "compensated" && status[0][0] != goes_.ends))
        return false;
    if (goes_.besides == disturbance::overtaken) {
        // The compensation and the charge are two acks; of the last, one of the two lines may be missing after a kill.
        auto hits = shop_.arms(payments).hits();
        return was_disturbed_ && hits["step.acked"] + hits["consumer.acked"] >= 3;
    }
    return goes_.besides != disturbance::malformed ||
           value(payments, "SELECT count(*) FROM skald.parked WHERE message_id = " + sql_text("malformed " + key_)) !=
               "0";
}

/// Nothing is on its way any more, and no transaction was left open.
bool run::is_quiet()
{
    if (!is_bound_) return false;
    for (std::size_t i = 0; i < services.size(); ++i)
        if (value(i,
                  "SELECT (SELECT count(*) FROM skald.outbox) + (SELECT count(*) FROM pg_stat_activity WHERE datname = "
                  "current_database() AND state LIKE 'idle in transaction%')") != "0")
            return false;
    return true;
}

std::string run::where_it_is()
{
    std::string text = shop_.what_happened();
    auto const add = [&](std::size_t service, std::string const& sql) {
        for (auto const& row : shop_.database(service).ask(sql)) {
            text += "\n        " + std::string{services[service]} + ':';
            for (auto const& cell : row) text += ' ' + cell;
        }
    };
    add(orders, "SELECT 'saga', status, reason FROM skald.saga WHERE key = " + sql_text(key_));
    for (std::size_t i = 0; i < services.size(); ++i) {
        add(i, "SELECT 'record', step, status, attempts, snoozes, error FROM skald.idempotency WHERE key = " +
                   sql_text(key_));
        add(i, "SELECT 'outbox', idempotency_key, attempts, error FROM skald.outbox");
        add(i, "SELECT 'parked', step, reason, error FROM skald.parked WHERE key = " + sql_text(key_));
        add(i, "SELECT 'open', application_name, state, query FROM pg_stat_activity WHERE datname = current_database() "
               "AND "
               "state LIKE 'idle in transaction%'");
        text += "\n        " + std::string{services[i]} + ": " +
                std::to_string(shop_.hands().waiting_in("skald." + std::string{services[i]})) + " deliveries wait";
    }
    std::istringstream log{shop_.logs()};
    for (std::string line; std::getline(log, line);)
        if (line.find(key_) != line.npos || line.find("not_settled") != line.npos || line.find(" started") != line.npos)
            text += "\n        " + line;
    return text;
}

/// The charge is undone before it arrives: it must stay undone.
void run::overtake()
{
    shop_.database(orders).ask(
        "INSERT INTO customer_order VALUES (" + sql_text(key_) +
        ", 'x', 'x', 1, 100);"
        "INSERT INTO skald.idempotency (scope, key, step) VALUES ('', " +
        sql_text(key_) +
        ", 'create-order');"
        "INSERT INTO skald.saga (scope, key, definition, version, data, itinerary) VALUES ('', " +
        sql_text(key_) + ", 'place-order', 1, '{}', 'forward 2/4 " + steps + "')");
    send_made_up("charge-payment.compensate", "back");
}

void run::send_made_up(std::string const& step, std::string const& direction)
{
    testing::raw_message message;
    message.destination = "payments";
    message.set_type("charge-payment");
    message.set_id(key_ + ':' + step);
    message.set("x-idempotency-key", key_ + ':' + step);
    message.set("x-saga-scope", "");
    message.set("x-saga", "place-order");
    message.set("x-saga-version", "1");
    message.set("x-saga-home", "orders");
    message.set("x-attempt", "1");
    message.set("x-saga-itinerary", direction + " 2/4 " + steps);
    message.body =
        nlohmann::json{{"id", key_}, {"customer", person_}, {"sku", item_}, {"quantity", 1}, {"cents", price}}.dump();
    shop_.hands().send(message);
}

// --- The invariants -------------------------------------------------------------------------------------------------

void run::expect(std::string_view invariant, std::string const& what, std::string const& found,
                 std::string const& expected)
{
    if (found != expected)
        result_.broken.push_back(std::string{invariant} + ' ' + what + ": " + found + " instead of " + expected);
}

void run::judge()
{
    judge_answers();
    judge_orders();
    judge_payments();
    judge_shipping();
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
    expect("I6", "the saga", value(orders, "SELECT status FROM skald.saga WHERE key = " + sql_text(key_)),
           std::string{goes_.ends});
    if (goes_.besides == disturbance::overtaken) return;
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
