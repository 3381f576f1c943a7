// What a run does to its order in addition to the fault under test.
#include "run.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace skald::crash {

using namespace std::chrono_literals;

void run::send_malformed()
{
    test::raw_message odd;
    odd.destination = "payments";
    odd.set_type("charge-payment");
    odd.set_id("malformed " + key_);
    odd.body = "not JSON: " + key_;
    shop_.between().send(odd);
}

/// Whatever else the way does, once its moment has come.
void run::disturb()
{
    repeat_captured();
    if (!goes_.gateway.empty()) answer_unknown();
    if (was_disturbed_) return;
    if (goes_.companions > 0) come_together();
    if (goes_.besides == disturbance::busy &&
        value(
            payments,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") !=
            "0") {
        // The claim waits for this transaction, and must give up waiting before it ends.
        was_disturbed_ = testing::wait_until(
            [&] {
                shop_.look_after();
                return value(payments, "SELECT count(*) FROM skald.outbox WHERE idempotency_key = '" + key_ +
                                           ":charge-payment'") != "0" ||
                       value(payments, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                                       "wait_event_type = 'Lock'") == "0";
            },
            5s);
        unblock();
    }
    issue_commands();
    if (is_forgotten(goes_.besides)) forget();
    if (goes_.besides == disturbance::overtaken &&
        value(
            payments,
            "SELECT count(*) FROM skald.idempotency WHERE status <> 'started' AND step LIKE '%.compensate' AND key = " +
                sql_text(key_)) != "0") {
        send_made_up("charge-payment", "forward");
        was_disturbed_ = true;
    }
    if (goes_.besides == disturbance::unrouted && !is_bound_) bind_or_unbind();
}

/// Nothing is bound for payments until its first message has come back; payments itself binds its queue when it starts,
/// and now and then.
void run::bind_or_unbind()
{
    bool const has_come_back =
        value(orders, "SELECT (SELECT count(*) FROM skald.outbox WHERE attempts > 0 AND idempotency_key = '" + key_ +
                          ":charge-payment') + (SELECT count(*) FROM skald.progress WHERE key = " + sql_text(key_) +
                          ')') != "0";
    if (!has_come_back) return shop_.between().cut_off_payments();
    shop_.between().restore_payments();
    was_disturbed_ = is_bound_ = true;
}

/// Checks what the broker carried: a message whose transaction did not commit is a ghost. And where the way requires
/// it, the message is sent a second time, at once.
void run::repeat_captured()
{
    auto const number_of_service = [](std::string const& name) {
        return static_cast<std::size_t>(std::ranges::find(services, name) - services.begin());
    };
    for (auto& message : shop_.between().take_captured()) {
        auto const order =
            std::ranges::find_if(placed_, [&](auto const& one) { return message.id().starts_with(one.key + ':'); });
        if (order == placed_.end()) continue;
        bool const is_new = ++seen_messages_[message.id() + message.destination + message.body] == 1;
        auto const type = message.type();
        auto const parent = [&](std::size_t service, std::string const& step) {
            if (is_new && value(service, "SELECT count(*) FROM skald.idempotency WHERE key = " + sql_text(order->key) +
                                             " AND step = " + sql_text(step)) == "0")
                result_.broken.push_back("I9 a ghost: " + message.id() + " was sent, and " + step +
                                         " has not committed");
        };
        if (type == "charge-payment") parent(orders, "create-order");
        if (type == "arrange-shipping") parent(payments, "charge-payment");
        if (type == "confirm-order") parent(shipping, "arrange-shipping");
        if (is_new && !type.starts_with("skald.")) captured_.push_back(message);
        if (!is_new || goes_.besides != disturbance::twice) continue;
        shop_.between().send(message);
        if (type == "skald.progress") continue;
        acks_expected_[number_of_service(message.destination)] += 2;
        ++copies_[number_of_service(message.destination)];
    }
}

void run::unblock()
{
    blocker_->abort();
    blocker_.reset();
}

/// A saga that is at the charge, which no one started.
void run::make_up_saga()
{
    shop_.database(orders).ask(
        "INSERT INTO customer_order VALUES (" + sql_text(key_) +
        ", 'x', 'x', 1, 100);"
        "INSERT INTO skald.idempotency (scope, key, step) VALUES ('', " +
        sql_text(key_) +
        ", 'create-order');"
        "INSERT INTO skald.saga (scope, key, definition, version, data, itinerary) VALUES ('', " +
        sql_text(key_) + ", 'place-order', 1, '{}', 'forward 2/4 " + std::string{itinerary_steps} + "')");
}

/// The charge is undone before it arrives: it must stay undone.
void run::overtake()
{
    make_up_saga();
    send_made_up("charge-payment.compensate", "back");
}

/// The charge arrives when it must not begin any more.
void run::come_late()
{
    make_up_saga();
    send_made_up("charge-payment", "forward", "2020-01-01T00:00:00.000000Z");
    was_disturbed_ = true;
}

void run::send_made_up(std::string const& step, std::string const& direction, std::string const& deadline)
{
    test::raw_message message;
    message.destination = "payments";
    message.set_type("charge-payment");
    message.set_id(key_ + ':' + step);
    message.set("x-idempotency-key", key_ + ':' + step);
    message.set("x-saga-scope", "");
    message.set("x-saga", "place-order");
    message.set("x-saga-version", "1");
    message.set("x-saga-home", "orders");
    message.set("x-attempt", "1");
    message.set("x-saga-itinerary", direction + " 2/4 " + std::string{itinerary_steps});
    if (!deadline.empty()) message.set("x-saga-deadline", deadline);
    message.body =
        nlohmann::json{{"id", key_}, {"customer", person_}, {"sku", item_}, {"quantity", 1}, {"cents", price}}.dump();
    shop_.between().send(message);
}

}  // namespace skald::crash
