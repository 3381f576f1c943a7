// An operator's commands in a run, with `skald` as a process that can be struck too.
#include "run.hpp"

#include <algorithm>

namespace skald::crash {

/// One step further, once the moment for it has come.
void run::issue_commands()
{
    auto const status_is = [&](std::string const& which) {
        return value(orders, "SELECT count(*) FROM skald.saga WHERE key = " + sql_text(key_) + which) != "0";
    };
    if (goes_.besides == disturbance::retried && status_is(" AND status = 'stuck'")) {
        give("retry");
        was_disturbed_ = true;
    }
    if ((goes_.besides == disturbance::early && status_is("")) ||
        (goes_.besides == disturbance::signalled &&
         value(payments, "SELECT count(*) FROM skald.started WHERE key = " + sql_text(key_)) != "0")) {
        operate(orders, {"saga", "signal", key_, "charge-payment", "--body", R"({"by": "the matrix"})"});
        was_disturbed_ = true;
    }
    if (goes_.besides != disturbance::paused && goes_.besides != disturbance::cancelled) return;
    std::string const first = goes_.besides == disturbance::paused ? "pause" : "cancel";
    if (stage_ == 0 && status_is("")) {
        give(first);
        stage_ = 1;
    }
    if (stage_ == 1 && has_met(first)) {
        unblock();
        stage_ = 2;
        was_disturbed_ = goes_.besides == disturbance::cancelled;
    }
    // A charge that has met the pause waits for five seconds; one that has met the other transaction, for one.
    if (stage_ == 2 && goes_.besides == disturbance::paused &&
        value(payments, "SELECT count(*) FROM skald.outbox WHERE due_at > clock_timestamp() + interval '2 seconds' AND "
                        "idempotency_key = '" +
                            key_ + ":charge-payment'") != "0") {
        give("resume");
        was_disturbed_ = true;
    }
}

void run::give(std::string const& order)
{
    operate(orders, {"saga", order, key_, "--reason", "the matrix says so"});
}

/// Whether every claim of the charge from now on meets the command: it is taken, and no claim is under way that began
/// before it.
bool run::has_met(std::string const& order)
{
    if (value(payments, "SELECT count(*) FROM skald.control WHERE key = " + sql_text(key_) +
                            " AND action = " + sql_text(order)) == "0")
        return false;
    return value(payments, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = "
                           "'active' AND query LIKE '%EXECUTE claim%' AND pid <> pg_backend_pid()") == "0";
}

bool run::are_commands_taken()
{
    auto const taken = "SELECT count(*) FROM skald.audit WHERE command_id IS NOT NULL AND key = " + sql_text(key_);
    auto const given = value(orders, taken);
    return value(payments, taken) == given &&
           (goes_.besides == disturbance::retried || value(shipping, taken) == given);
}

/// Each command was taken once, and the same one counts in every service.
void run::judge_operator()
{
    if (goes_.besides != disturbance::paused && goes_.besides != disturbance::cancelled) return;
    auto const taken =
        "SELECT string_agg(command_id::text, ' ' ORDER BY command_id) FROM skald.audit WHERE command_id IS NOT "
        "NULL AND key = " +
        sql_text(key_);
    auto const counts =
        "SELECT action || ' ' || skald.instant(requested_at) FROM skald.control WHERE key = " + sql_text(key_);
    for (auto const service : {payments, shipping}) {
        expect("I16", "orders taken in " + std::string{services[service]}, value(service, taken), value(orders, taken));
        expect("I16", "the order that counts in " + std::string{services[service]}, value(service, counts),
               value(orders, counts));
    }
}

/// Hits in earlier commands of this run count, as they do in a process that goes on.
void run::operate(std::size_t service, std::vector<std::string> const& words)
{
    auto& arms = shop_.arms(the_operator);
    auto const& what = result_.what;
    if (what.place == the_operator && !arms.sprang()) {
        auto left = what;
        left.hit -= std::min(what.hit - 1, arms.hits()[what.point]);
        arms.rearm(left.program());
    }
    shop_.operate(service, words);
    arms.disarm();
}

}  // namespace skald::crash
