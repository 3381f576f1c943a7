#include "admin/figure_reader.hpp"

#include "postgres/literal.hpp"
#include "skald_metrics_queries.hpp"

#include <pqxx/pqxx>

#include <string_view>

namespace skald::admin {
namespace {

// What is counted of a table at the most: more than that is an alarm, whatever the number.
constexpr std::int64_t rows_max = 100'000;

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

}  // namespace

std::string figure_reader::read(postgres::connection& c, std::string const& outbox_from)
try {
    c.run(std::string{begin_reading});
    read_figures(c, outbox_from);
    read_ended(c);
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
    auto const rows =
        c.run(postgres::filled_in(metrics_queries::ended_sagas{.after = ended_until_, .bounds = bounds_text()}));
    for (auto const& row : rows) {
        if (!row["until"].is_null()) ended_until_ = row["until"].c_str();
        else
            to_.add_ended(row["definition"].c_str(), row["status"].c_str(), row["bucket"].as<std::size_t>(),
                          row["sagas"].as<std::uint64_t>(), row["seconds"].as<double>());
    }
}

}  // namespace skald::admin
