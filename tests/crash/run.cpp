#include "run.hpp"

#include <sstream>

namespace skald::crash {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 10ms;

// How long to wait for a fault that should have struck by the time its order has ended: acks and reports come later.
constexpr auto late_hit = 400ms;

}  // namespace

run::run(shop_system& shop, plan what, int number, std::chrono::milliseconds patience)
    : shop_{shop}, goes_{*what.goes}, patience_{patience}, key_{"order-" + std::to_string(number)},
      person_{std::string{goes_.habit} + "-" + std::to_string(number)}, item_{"lamp-" + std::to_string(number)},
      older_{"older-" + std::to_string(number)}, stuck_{"stuck-" + std::to_string(number)}
{
    result_.what = std::move(what);
    placed_.push_back({key_, person_, item_, &goes_, nullptr, 0});
    add_companions(number);
}

result run::execute()
{
    auto const began = clock::now();
    prepare();
    shop_.arm(result_.what.place, result_.what.program());
    if (goes_.besides == disturbance::malformed) send_malformed();
    if (goes_.besides == disturbance::overtaken) overtake();
    if (goes_.besides == disturbance::late) come_late();
    // With many, the first is a companion: come_together() makes the others follow.
    if (!is_made_up(goes_.besides)) place(placed_.back());

    bool ended = wait_for(&run::is_over, patience_);
    if (ended && !result_.what.point.empty() && wait_for(&run::has_sprung, late_hit))
        ended = wait_for(&run::is_over, patience_);
    if (ended && goes_.besides == disturbance::twice) wait_for(&run::are_copies_done, late_copy);
    result_.sprang = has_sprung();
    for (std::size_t i = 0; i < places.size(); ++i) {
        result_.hits[i] = shop_.arms(i).hits();
        shop_.arms(i).disarm();
    }
    result_.is_late = !ended && !is_at_rest();
    if (!ended)
        result_.broken.push_back(
            (result_.is_late ? "I6 it does not end: " : "I6 it has not ended, and nothing is on its way any more: ") +
            where_it_is());
    else judge();
    shop_.send_standins_home();
    result_.took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began);
    return std::move(result_);
}

void run::prepare()
{
    shop_.set_lanes(payments, goes_.companions > 0 ? 1 : usual_lanes);
    shop_.set_payments(goes_);
    for (auto const& one : placed_) {
        shop_.database(payments).ask("INSERT INTO wallet VALUES (" + sql_text(one.person) + ", " +
                                     std::to_string(one.goes->money) + ')');
        shop_.database(shipping).ask("INSERT INTO stock VALUES (" + sql_text(one.item) + ", " +
                                     std::to_string(one.goes->stock) + ')');
    }
    if (goes_.besides == disturbance::unrouted) {
        shop_.between().cut_off_payments();
        is_bound_ = false;
    }
    if (is_forgotten(goes_.besides)) prepare_others();
    if (begins_blocked(goes_.besides) || goes_.companions > 0) {
        // With many orders, the one that comes first.
        auto const& blocked = goes_.companions > 0 ? placed_.back().key : key_;
        blocker_connection_ = std::make_unique<pqxx::connection>(shop_.database(payments).url());
        blocker_ = std::make_unique<pqxx::work>(*blocker_connection_);
        blocker_->exec("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', " + sql_text(blocked) +
                       ", 'charge-payment')");
    }
}

bool run::wait_for(bool (run::*condition)(), std::chrono::milliseconds longest)
{
    // Between two polls: the services do not notify the harness when they are done.
    for (auto const until = clock::now() + longest; clock::now() < until; std::this_thread::sleep_for(tick)) {
        shop_.look_after();
        disturb();
        watch_answers();
        if ((this->*condition)()) return true;
    }
    return false;
}

bool run::are_copies_done()
{
    return are_copies_acked() && is_over();
}

bool run::are_copies_acked()
{
    // Those of a batch are acked all at once, which is one hit; but each copy was recognized as one.
    for (std::size_t i = 0; i < services.size(); ++i) {
        auto hits = shop_.arms(i).hits();
        if (hits["step.acked"] < acks_expected_[i] && hits["step.duplicate"] < copies_[i]) return false;
    }
    return true;
}

bool run::has_sprung()
{
    return shop_.arms(result_.what.place).sprang();
}

/// The fault is recorded a moment before it can be seen.
bool run::is_about_to_show()
{
    auto const& action = result_.what.action;
    if ((action != "kill" && action != "stop") || !has_sprung()) return false;
    return shop_.what_happened().find(action == "kill" ? "ended" : "stopped") == std::string::npos;
}

bool run::is_over()
{
    return shop_.look_after() && !is_about_to_show() && is_ended() && is_quiet();
}

bool run::is_ended()
{
    for (auto const& one : placed_)
        if (one.client ? !one.client->answer() : !is_made_up(goes_.besides)) return false;
    if (is_forgotten(goes_.besides)) return was_disturbed_;
    for (auto const& one : placed_) {
        auto const status = value(orders, "SELECT min(status::text) FROM skald.saga WHERE key = " + sql_text(one.key));
        if (status != "completed" && status != "compensated" && status != one.goes->ends) return false;
    }
    if (goes_.besides == disturbance::overtaken && shop_.between().is_asked_quickly())
        return was_disturbed_ && shop_.between().is_empty();
    if (goes_.besides == disturbance::overtaken) {
        // The compensation and the charge are two acks, on two lanes; a kill may lose the trace lines of both, and one
        // frame may have carried both acks. Then what was not acked is in the queue again.
        auto hits = shop_.arms(payments).hits();
        auto const acks = hits["step.acked"] + hits["consumer.acked"];
        bool const both_came = hits["consumer.delivered"] >= 2 && shop_.between().waiting_in("payments") == 0;
        return was_disturbed_ && (acks >= 3 || (acks >= 2 && both_came));
    }
    if (goes_.besides == disturbance::paused || goes_.besides == disturbance::cancelled ||
        goes_.besides == disturbance::retried)
        return was_disturbed_ && are_commands_taken();
    return goes_.besides != disturbance::malformed ||
           value(payments, "SELECT count(*) FROM skald.parked WHERE message_id = " + sql_text("malformed " + key_)) !=
               "0";
}

/// Nothing is on its way any more, and no transaction is open.
bool run::is_quiet()
{
    return is_bound_ && are_outboxes_empty();
}

bool run::are_outboxes_empty()
{
    for (std::size_t i = 0; i < services.size(); ++i)
        if (value(i,
                  "SELECT (SELECT count(*) FROM skald.outbox) + (SELECT count(*) FROM pg_stat_activity WHERE datname = "
                  "current_database() AND state LIKE 'idle in transaction%')") != "0")
            return false;
    return true;
}

/// No message waits anywhere, and no service has one: what has not ended now never will.
bool run::is_at_rest()
{
    if (!shop_.look_after() || !are_outboxes_empty()) return false;
    return shop_.between().is_empty() && are_outboxes_empty();
}

std::string run::where_it_is()
{
    std::string text = shop_.what_happened(), keys = sql_text(older_);
    for (auto const& one : placed_) keys += ", " + sql_text(one.key);
    auto const add = [&](std::size_t service, std::string const& sql) {
        for (auto const& row : shop_.database(service).ask(sql)) {
            text += "\n        " + std::string{services[service]} + ':';
            for (auto const& cell : row) text += ' ' + cell;
        }
    };
    add(orders, "SELECT 'saga', key, status, reason, expiring FROM skald.saga WHERE key IN (" + keys + ')');
    for (std::size_t i = 0; i < services.size(); ++i) {
        add(i, "SELECT 'record', key, step, status, attempts, snoozes, error FROM skald.idempotency WHERE key IN (" +
                   keys + ')');
        add(i, "SELECT 'started', key, step, owner, fence, in_doubt, calls, looks, tries, answer, error FROM "
               "skald.started "
               "WHERE key IN (" +
                   keys + ')');
        add(i, "SELECT 'order', verb, detail->>'effect' FROM skald.audit WHERE key IN (" + keys + ')');
        add(i, "SELECT 'ended', key, home FROM skald.ended");
        add(i, "SELECT 'outbox', idempotency_key, attempts, error FROM skald.outbox");
        add(i, "SELECT 'parked', key, step, reason, error FROM skald.parked WHERE key IN (" + keys + ')');
        add(i, "SELECT 'open', application_name, state, query FROM pg_stat_activity WHERE datname = current_database() "
               "AND "
               "state LIKE 'idle in transaction%'");
        text += "\n        " + std::string{services[i]} + ": " +
                std::to_string(shop_.between().waiting_in(services[i])) + " deliveries wait";
    }
    std::istringstream log{shop_.logs()};
    for (std::string line; std::getline(log, line);)
        // The companions' keys begin with it.
        if (line.find(key_) != line.npos || line.find("not_processed") != line.npos ||
            line.find(" started") != line.npos)
            text += "\n        " + line;
    return text;
}

}  // namespace skald::crash
