#include "admin/figure_reader.hpp"

#include "postgres/literal.hpp"
#include "skald_metrics_queries.hpp"

#include <pqxx/pqxx>

#include <chrono>
#include <string_view>

namespace skald::admin {
namespace {

// What is counted of a table at the most: more than that is an alarm, whatever the number.
constexpr std::int64_t rows_max = 100'000;

// Sagas that have ended are taken in in parts of about so many, each well within the time that a statement has: after
// an outage there may be a million.
constexpr std::int64_t ended_max = 10'000;
constexpr auto ended_turn = std::chrono::milliseconds{500};

// A table that is locked, or very large, must hold up neither this thread nor anyone who waits behind it.
constexpr std::string_view begin_reading{
    "BEGIN READ ONLY; SET LOCAL statement_timeout = 1000; SET LOCAL lock_timeout = 50; "
    "SET LOCAL jit = off; SET LOCAL enable_seqscan = off;"};

std::string bounds_text()
{
    std::string text{'{'};
    for (auto const bound : metrics::saga_bounds) text.append(text.size() > 1 ? "," : "").append(std::to_string(bound));
    return text + '}';
}

// Calls `part` within a transaction of its own. Returns why it could not read, or nothing.
template <class Part>
std::string in_transaction(postgres::connection& c, Part part)
try {
    c.run(std::string{begin_reading});
    part();
    c.run("COMMIT");
    return {};
}
catch (pqxx::broken_connection const&) {
    throw;
}
catch (pqxx::failure const& error) {
    c.run("ROLLBACK");
    return error.what();
}

}  // namespace

// In two transactions: neither waits for what the other can't read.
std::string figure_reader::read(postgres::connection& c, std::string const& outbox_from)
{
    auto why_not = in_transaction(c, [&] { read_figures(c, outbox_from); });
    in_transaction(c, [&] { read_ended(c); });
    return why_not;
}

void figure_reader::read_figures(postgres::connection& c, std::string const& outbox_from)
{
    metrics::figures read;
    for (auto const& row :
         c.run(postgres::filled_in(metrics_queries::figures{.rows_max = rows_max, .outbox_from = outbox_from}))) {
        std::string_view const figure{row["figure"].c_str()};
        metrics::figures::by_two one{row["first"].c_str(), row["second"].c_str(), row["value"].as<double>(0)};
        if (figure == "sagas") read.sagas.push_back(std::move(one));
        else if (figure == "oldest") read.oldest_sagas.push_back(std::move(one));
        else if (figure == "outbox") read.outbox_rows.push_back(std::move(one));
        else if (figure == "parked") read.parked.push_back(std::move(one));
        else if (figure == "started") read.started.push_back(std::move(one));
        else if (figure == "oldest started") read.oldest_started.push_back(std::move(one));
        else if (figure == "overdue started") read.started_overdue.push_back(std::move(one));
        else if (figure == "unknown calls") read.unknown_calls.push_back(std::move(one));
        else if (figure == "unsettled") read.unsettled.push_back(std::move(one));
        else if (figure == "overdue") read.outbox_overdue_seconds = one.value;
        else if (figure == "unrouted") read.unrouted = one.value;
        else if (figure == "deadlocks") read.deadlocks = one.value;
    }
    to_.read(std::move(read));
}

void figure_reader::read_ended(postgres::connection& c)
{
    auto const from = std::chrono::steady_clock::now();
    bool is_all = false;
    while (!is_all && std::chrono::steady_clock::now() - from < ended_turn) {
        for (auto const& row : c.run(postgres::filled_in(metrics_queries::ended_sagas{
                 .after = ended_until_, .rows_max = ended_max, .bounds = bounds_text()}))) {
            if (row["until"].is_null())
                to_.add_ended(row["definition"].c_str(), row["status"].c_str(), row["bucket"].as<std::size_t>(),
                              row["sagas"].as<std::uint64_t>(), row["seconds"].as<double>());
            else {
                ended_until_ = row["until"].c_str();
                is_all = row["is_all"].as<bool>();
            }
        }
    }
}

}  // namespace skald::admin
