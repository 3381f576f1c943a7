// Runs whose order expires when it is old enough: by the services' maintenance, or by an operator's `skald purge`.
//
// Nothing waits for days here: what is stored is moved into the past instead.
#include "run.hpp"

namespace skald::crash {
namespace {

// Of `skald purge`; the services' own is SKALD_RETENTION_DAYS, 30.
constexpr int purged_after = 7;
constexpr int within = 5;  // days: within both retentions; all other ages are past them
constexpr int stuck_for = 1'000;

int days_beyond(disturbance besides)
{
    return besides == disturbance::purged ? 10 : 40;
}

std::string moved_back(int days, std::string const& column)
{
    return column + " = " + column + " - interval '" + std::to_string(days) + " days'";
}

std::string records_in_home(std::string const& key, std::string const& status)
{
    auto const begin = " VALUES ('', " + sql_text(key) + ", ";
    return "INSERT INTO skald.idempotency (scope, key, step)" + begin + "''), ('', " + sql_text(key) +
           ", 'create-order'); INSERT INTO skald.progress (scope, key, step, service, status, attempts, at)" + begin +
           "'charge-payment', 'payments', 'completed', 1, clock_timestamp()); INSERT INTO skald.saga (scope, key, "
           "definition, version, data, itinerary, status, finished_at)" +
           begin + "'place-order', 1, '{}', 'forward 1/4 " + std::string{itinerary_steps} + "', '" + status + "', " +
           (status == "stuck" ? "NULL" : "clock_timestamp()") + ')';
}

std::string record_of(std::string const& key, std::string const& step)
{
    return "INSERT INTO skald.idempotency (scope, key, step) VALUES ('', " + sql_text(key) + ", '" + step + "')";
}

void move_back(shop_system& shop, std::string const& key, int days)
{
    auto const where = " WHERE key = " + sql_text(key);
    for (std::size_t i = 0; i < services.size(); ++i)
        shop.database(i).ask("UPDATE skald.idempotency SET " + moved_back(days, "created_at") + ", " +
                             moved_back(days, "updated_at") + where + "; UPDATE skald.response SET " +
                             moved_back(days, "created_at") + where + "; UPDATE skald.saga SET " +
                             moved_back(days, "created_at") + ", " + moved_back(days, "finished_at") + where);
}

}  // namespace

/// Two more sagas: one that ended before the order begins and may be expired at once, and one that is stuck.
void run::prepare_others()
{
    shop_.database(orders).ask(records_in_home(stuck_, "stuck"));
    shop_.database(payments).ask(record_of(stuck_, "charge-payment"));
    move_back(shop_, stuck_, stuck_for);
    stuck_remembered_ = remembered(stuck_);

    shop_.database(payments).ask(record_of(older_, "charge-payment"));
    shop_.database(shipping).ask(record_of(older_, "arrange-shipping"));
    shop_.database(orders).ask(records_in_home(older_, "completed"));
    move_back(shop_, older_, days_beyond(goes_.besides));
}

/// One step further: the older saga is expired while the order is not; then the order is.
void run::forget()
{
    bool const by_purge = goes_.besides == disturbance::swept;
    if (was_disturbed_ || !shop_.look_after() || !is_quiet()) return;
    if (stage_ == 0) {
        if (!placed_.front().client->answer() ||
            value(orders, "SELECT count(*) FROM skald.saga WHERE status = 'completed' AND key = " + sql_text(key_)) ==
                "0")
            return;
        if (!by_purge) age(within);
        stage_ = 1;
    }
    if (stage_ == 1) {
        if (!by_purge) purge_everywhere();
        if (remembered(older_) > 0) return;
        cache_hits_ = kept();
        if (!by_purge) send_copies();
        copies_until_ = clock::now() + late_copy;
        stage_ = 2;
    }
    if (stage_ == 2) {
        if (!are_copies_acked() && clock::now() < copies_until_) return;
        // What came twice is in no saga's plan any more, and would never be expired: there is no need to wait for it.
        judge_payments(placed_.front());
        judge_shipping(placed_.front());
        was_disturbed_ = !result_.broken.empty();
        if (was_disturbed_) return;
        age(by_purge ? days_beyond(goes_.besides) : days_beyond(goes_.besides) - within);
        stage_ = 3;
    }
    if (!by_purge) purge_everywhere();
    was_disturbed_ = remembered(key_) == 0;
}

void run::purge_everywhere()
{
    for (std::size_t i = 0; i < services.size(); ++i)
        operate(i, {"purge", "--older-than", std::to_string(purged_after)});
}

/// Every message to a step of the order comes a second time, as late as possible.
void run::send_copies()
{
    repeat_captured();
    for (std::size_t i = 0; i < services.size(); ++i) acks_expected_[i] = shop_.arms(i).hits()["step.acked"];
    for (std::size_t i = 0; i < services.size(); ++i) copies_[i] = shop_.arms(i).hits()["step.duplicate"];
    for (auto const& message : captured_) {
        shop_.between().send(message);
        for (std::size_t i = 0; i < services.size(); ++i) {
            acks_expected_[i] += services[i] == message.destination;
            copies_[i] += services[i] == message.destination;
        }
    }
}

void run::age(int days)
{
    move_back(shop_, key_, days);
}

/// What keeps a message of the order from taking effect twice, in each service.
std::string run::kept()
{
    std::string counts;
    for (std::size_t i = 0; i < services.size(); ++i)
        counts += value(i, "SELECT (SELECT count(*) FROM skald.idempotency WHERE key = k AND step <> '') + (SELECT "
                           "count(*) FROM skald.saga WHERE key = k) + (SELECT count(*) FROM skald.response WHERE key = "
                           "k) FROM (SELECT " +
                               sql_text(key_) + "::text) AS order_(k)") +
                  ' ';
    return counts;
}

long run::remembered(std::string const& key)
{
    long all = 0;
    for (std::size_t i = 0; i < services.size(); ++i)
        for (auto const* table : {"idempotency", "saga", "progress", "response", "control", "ended"})
            all += shop_.database(i).count("skald." + std::string{table} + " WHERE key = " + sql_text(key));
    return all;
}

void run::judge_forgetting()
{
    expect("I17", "records of the stuck saga", std::to_string(remembered(stuck_)), std::to_string(stuck_remembered_));
    expect("I17", "records of the order within its retention, by service", cache_hits_, "4 1 1 ");
    expect("I18", "records of the order", std::to_string(remembered(key_)), "0");
    expect("I18", "records of the older saga", std::to_string(remembered(older_)), "0");
}

}  // namespace skald::crash
