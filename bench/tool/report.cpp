#include "report.hpp"

#include "plot.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using json = nlohmann::ordered_json;

constexpr double steps_of_a_saga = 3;

double per_step(std::int64_t count, phase_figures const& of)
{
    return static_cast<double>(count) / (static_cast<double>(of.sagas) * steps_of_a_saga);
}

// Milliseconds of processor time for each saga of the window.
double ms_per_saga(double seconds, phase_figures const& of)
{
    return of.ended_in_window > 0 ? seconds * 1'000 / static_cast<double>(of.ended_in_window) : 0;
}

json to_json(server_counts const& c)
{
    json rows = json::object();
    for (auto const& [table, counts] : c.rows)
        rows[table] = {{"inserted", counts.inserted}, {"updated", counts.updated}, {"deleted", counts.deleted}};
    return {{"wal_bytes", c.wal_bytes},     {"wal_records", c.wal_records}, {"wal_full_pages", c.wal_full_pages},
            {"wal_flushes", c.wal_flushes}, {"wal_writes", c.wal_writes},   {"commits", c.commits},
            {"rollbacks", c.rollbacks},     {"rows", std::move(rows)}};
}

json to_json(phase_figures const& p)
{
    json made{{"who", name_of(p.asked.who)},
              {"label", p.asked.label},
              {"sagas_per_second", p.per_second},
              {"sagas", p.sagas},
              {"ended_in_window", p.ended_in_window},
              {"window_seconds", p.window_seconds},
              {"by_tenth_of_window", p.per_second_by_part},
              {"server", to_json(p.counts)},
              {"per_step",
               {{"wal_bytes", per_step(p.counts.wal_bytes, p)},
                {"wal_flushes", per_step(p.counts.wal_flushes, p)},
                {"commits", per_step(p.counts.commits, p)}}},
              {"cpu_seconds",
               {{"services", p.cpu.services},
                {"postgres", p.cpu.postgres},
                {"broker", p.cpu.broker},
                {"driver", p.cpu.driver}}},
              {"peak_rss_mib", p.peak_rss_mib}};
    for (auto const& [name, value] : p.asked.about) made[name] = value;
    return made;
}

json to_json(percentiles const& s)
{
    return {{"count", s.count}, {"p50", s.p50}, {"p99", s.p99}, {"p999", s.p999}, {"max", s.max}};
}

void print_phase(phase_figures const& p)
{
    fmt::print("{:<30}{:<10}{:>9.0f} |{:>8.0f}{:>9.3f}{:>9.3f} |{:>8.2f}{:>8.2f}{:>8.2f}{:>8.2f} |{:>8.1f}\n",
               p.asked.label, name_of(p.asked.who), p.per_second, per_step(p.counts.wal_bytes, p),
               per_step(p.counts.wal_flushes, p), per_step(p.counts.commits, p), ms_per_saga(p.cpu.services, p),
               ms_per_saga(p.cpu.postgres, p), ms_per_saga(p.cpu.broker, p), ms_per_saga(p.cpu.driver, p),
               most_of_a_service(p.peak_rss_mib));
    std::fflush(stdout);
}

// Of the phases of a scenario, one for each value of `x`: the mean of the rounds.
std::vector<double> means(json const& phases, std::vector<double> const& places, char const* x, std::string const& who,
                          std::string const& keys)
{
    std::vector<double> values;
    for (auto const place : places) {
        double sum = 0;
        int count = 0;
        for (auto const& phase : phases)
            if (phase.at("who") == who && phase.at("keys") == keys && phase.at(x) == place)
                sum += phase.at("sagas_per_second").get<double>(), ++count;
        values.push_back(count > 0 ? sum / count : 0);
    }
    return values;
}

std::string rate_or_too_short(double value)
{
    return value > 0 ? fmt::format("{:.0f}", value) : "too short";
}

std::string short_number(double value)
{
    return value >= 1'000'000 ? fmt::format("{:g} million", value / 1'000'000) : fmt::format("{:g}", value);
}

chart throughput_by_rows(json const& phases)
{
    std::set<double> rows;
    std::set<std::pair<std::string, std::string>> kinds;
    for (auto const& phase : phases) {
        rows.insert(phase.at("rows").get<double>());
        kinds.emplace(phase.at("who").get<std::string>(), phase.at("keys").get<std::string>());
    }
    std::vector<double> const places(rows.begin(), rows.end());
    chart made{"Throughput against table size",
               "old rows in skald.idempotency, each database",
               "sagas a second",
               {},
               {},
               false};
    for (auto const place : places) made.places.push_back(short_number(place));
    for (auto const& [who, keys] : kinds)
        made.lines.push_back({who + ", " + keys, means(phases, places, "rows", who, keys), who == "baseline"});
    return made;
}

chart latency_by_rate(json const& phases)
{
    chart made{"Time to completion against rate",
               "sagas started a second, over HTTP",
               "milliseconds",
               {},
               {{"p50", {}}, {"p99", {}}, {"p99.9", {}}},
               true};
    for (auto const& phase : phases) {
        if (phase.at("rate") == 0) continue;
        auto const& ends = phase.at("completed_ms");
        made.places.push_back(short_number(phase.at("rate").get<double>()));
        made.lines[0].values.push_back(ends.at("p50"));
        made.lines[1].values.push_back(ends.at("p99"));
        made.lines[2].values.push_back(ends.at("p999"));
    }
    return made;
}

void write_file(std::filesystem::path const& file, std::string const& text)
{
    std::ofstream out{file};
    out << text;
    out.flush();
    if (!out)
        throw std::runtime_error{"can't write " + file.string() + ": is its folder there, and may it be written?"};
}

}  // namespace

void report::settings(json described)
{
    described["commit"] = chosen_.commit;
    document_["settings"] = std::move(described);
    document_["scenarios"] = json::array();
    auto const& s = document_.at("settings");
    fmt::print("{} cores, Linux {}, PostgreSQL {}, RabbitMQ {}, commit {}\n",
               s.at("machine").at("cores").get<unsigned>(), s.at("machine").at("kernel").get<std::string>(),
               s.at("postgres").at("server_version").get<std::string>(),
               s.at("broker").at("version").get<std::string>(), chosen_.commit);
    std::string line;
    for (auto const& [name, value] : s.at("postgres").items())
        if (name != "server_version") line += fmt::format(" {}={}", name, value.get<std::string>());
    fmt::print("PostgreSQL:{}\nPostgreSQL over {}; sagas started by {}; {}; the baseline: {} lanes, {} "
               "deliveries a transaction\n",
               line, chosen_.tcp ? "TCP" : "its unix socket",
               chosen_.start_by_function ? "skald.start(), one call each" : "rows, many in one statement",
               chosen_.each ? "one business statement a delivery" : "one business statement a batch",
               chosen_.baseline_lanes, chosen_.baseline_batch);
}

void report::begin(std::string const& scenario, std::string const& explanation)
{
    document_["scenarios"].push_back(
        {{"name", scenario}, {"about", explanation}, {"phases", json::array()}, {"ratios", json::array()}});
    fmt::print("\n== {}: {}\n", scenario, explanation);
    if (scenario == "latency")
        fmt::print("{:<30}{:>9}{:>10} |{:^32} |{:^32}\n{:<50}|{:>8}{:>8}{:>8}{:>8} |{:>8}{:>8}{:>8}{:>8}\n", "",
                   "sagas", "a second", "answer, ms", "saga completed, ms", "", "p50", "p99", "p99.9", "max", "p50",
                   "p99", "p99.9", "max");
    else if (scenario == "shop") begin_shop();
    else if (scenario == "transports") begin_transports();
    else if (scenario == "entry")
        fmt::print("{:<36}{:>10}{:>12} |{:>8}{:>8}{:>8}{:>8}\n", "", "requests", "a second", "p50 ms", "p99", "p99.9",
                   "max");
    else if (scenario == "guards")
        fmt::print("{:<12}{:>5}{:>5} |{:>8} |{:^15} |{:^15} |{:>6} |{:>6} |{:^18} |{:^14}\n{:<12}{:>5}{:>5} |{:>8} "
                   "|{:>7}{:>8} |{:>7}{:>8} |{:>6} |{:>6} |{:>6}{:>6}{:>6} |{:>6}{:>4}{:>4}\n",
                   "", "", "%", "answers", "first, ms", "replayed, ms", "a 100", "trans-", "us of processor", "", "",
                   "by", "dup", "a second", "p50", "p99", "p50", "p99", "409s", "action", "serv.", "PG", "Redis", "503",
                   "2x", "bad");
    else if (scenario == "messages")
        fmt::print("{:<30}{:>12}{:>10}{:>12}{:>16}{:>16}\n", "", "messages", "s", "a second", "first quarter",
                   "last quarter");
    else if (scenario == "backlog")
        fmt::print("{:<20}{:>12}{:>10}{:>14}{:>16}{:>16}{:>10}\n", "", "messages", "s", "a second", "first quarter",
                   "last quarter", "RSS MiB");
    else if (scenario != "waits" && scenario != "calls")  // which say what they found in words
        fmt::print("{:<40}{:>9} |{:^26} |{:^32} |{:>8}\n{:<40}{:>9} |{:>8}{:>9}{:>9} |{:>8}{:>8}{:>8}{:>8} |{:>8}\n",
                   "", "sagas", "a step", "processor, ms a saga", "RSS MiB", "", "a second", "WAL B", "flushes",
                   "commits", "services", "postgres", "broker", "driver", "at most");
    std::fflush(stdout);
}

void report::add(phase_figures const& measured)
{
    print_phase(measured);
    scenario()["phases"].push_back(to_json(measured));
}

void report::add_ratio(std::string const& label, speed const& first, speed const& second)
{
    auto const ratio = second.per_second > 0 ? first.per_second / second.per_second : 0;
    fmt::print("{:<39} {:>6.1f} % of {}\n", label, ratio * 100, second.of);
    std::fflush(stdout);
    scenario()["ratios"].push_back(
        {{"label", label}, {first.of, first.per_second}, {second.of, second.per_second}, {"ratio", ratio}});
}

void report::add(latency_figures const& m)
{
    auto const& a = m.answer_ms;
    auto const& c = m.completed_ms;
    fmt::print("{:<30}{:>9}{:>10.1f} |{:>8.1f}{:>8.1f}{:>8.1f}{:>8.1f} |{:>8.1f}{:>8.1f}{:>8.1f}{:>8.1f}\n",
               m.rate > 0 ? fmt::format("{:g} a second, open loop", m.rate) : "one alone, closed loop", m.sagas,
               m.achieved_per_second, a.p50, a.p99, a.p999, a.max, c.p50, c.p99, c.p999, c.max);
    std::fflush(stdout);
    scenario()["phases"].push_back({{"rate", m.rate},
                                    {"sagas", m.sagas},
                                    {"achieved_per_second", m.achieved_per_second},
                                    {"answer_ms", to_json(a)},
                                    {"completed_ms", to_json(c)}});
}

void report::add(backlog_figures const& m)
{
    auto const per_second = m.seconds > 0 ? static_cast<double>(m.messages) / m.seconds : 0;
    fmt::print("{:<20}{:>12}{:>10.1f}{:>14.0f}{:>16}{:>16}{:>10.1f}\n", name_of(m.who), m.messages, m.seconds,
               per_second, rate_or_too_short(m.first_quarter_per_second), rate_or_too_short(m.last_quarter_per_second),
               most_of_a_service(m.peak_rss_mib));
    std::fflush(stdout);
    scenario()["phases"].push_back({{"who", name_of(m.who)},
                                    {"messages", m.messages},
                                    {"seconds", m.seconds},
                                    {"per_second", per_second},
                                    {"first_quarter_per_second", m.first_quarter_per_second},
                                    {"last_quarter_per_second", m.last_quarter_per_second},
                                    {"peak_rss_mib", m.peak_rss_mib}});
}

void report::add(entry_figures const& m)
{
    auto const* const kind = m.kind == request_kind::fresh ? "a key of its own each" : "replayed";
    fmt::print("{:<24}{:<12}{:>10}{:>12.0f} |{:>8.2f}{:>8.2f}{:>8.2f}{:>8.2f}\n", kind, name_of(m.who), m.requests,
               m.per_second, m.ms.p50, m.ms.p99, m.ms.p999, m.ms.max);
    std::fflush(stdout);
    scenario()["phases"].push_back({{"who", name_of(m.who)},
                                    {"replayed", m.kind == request_kind::replayed},
                                    {"connections", m.connections},
                                    {"requests", m.requests},
                                    {"per_second", m.per_second},
                                    {"answer_ms", to_json(m.ms)}});
}

void report::add(message_figures const& m)
{
    fmt::print("{:<30}{:>12}{:>10.2f}{:>12.0f}{:>16}{:>16}\n", m.label, m.messages, m.seconds, m.per_second,
               rate_or_too_short(m.first_quarter_per_second), rate_or_too_short(m.last_quarter_per_second));
    std::fflush(stdout);
    scenario()["phases"].push_back({{"label", m.label},
                                    {"messages", m.messages},
                                    {"seconds", m.seconds},
                                    {"per_second", m.per_second},
                                    {"first_quarter_per_second", m.first_quarter_per_second},
                                    {"last_quarter_per_second", m.last_quarter_per_second}});
}

void report::add(guard_figures const& m)
{
    auto const each_hundred = [&](std::int64_t count) {
        return m.answers > 0 ? 100 * static_cast<double>(count) / static_cast<double>(m.answers) : 0;
    };
    fmt::print(
        "{:<12}{:>5}{:>5} |{:>8.0f} |{:>7.2f}{:>8.2f} |{:>7.2f}{:>8.2f} |{:>6.1f} |{:>6.2f} |{:>6.0f}{:>6.0f}{:>6.0f} "
        "|{:>6}{:>4}{:>4}\n",
        m.way, m.callers, m.duplicates, m.per_second, m.first_ms.p50, m.first_ms.p99, m.replay_ms.p50, m.replay_ms.p99,
        each_hundred(m.told_to_wait), m.transactions, m.services_us, m.postgres_us, m.redis_us, m.refused, m.twice,
        m.wrong);
    std::fflush(stdout);
    scenario()["phases"].push_back(
        {{"way", m.way},
         {"callers", m.callers},
         {"duplicates_percent", m.duplicates},
         {"answers", m.answers},
         {"per_second", m.per_second},
         {"first_ms", to_json(m.first_ms)},
         {"replay_ms", to_json(m.replay_ms)},
         {"told_to_wait", m.told_to_wait},
         {"refused", m.refused},
         {"transactions_per_answer", m.transactions},
         {"cpu_us_per_answer", {{"services", m.services_us}, {"postgres", m.postgres_us}, {"redis", m.redis_us}}},
         {"effects_twice", m.twice},
         {"wrong_responses", m.wrong}});
}

void report::add(nlohmann::ordered_json figures)
{
    scenario()["phases"].push_back(std::move(figures));
}

void report::say(std::string const& words) const
{
    fmt::print("{}\n", words);
    std::fflush(stdout);
}

void report::compare(phase_figures const& framework, phase_figures const& baseline) const
{
    fmt::print("\nWhat each left, a saga:\n{:<32}{:>22}{:>22}\n{:<32}{:>22}{:>22}\n",
               "rows: + inserted ~ updated - deleted", "framework", "baseline", "", "+       ~       -",
               "+       ~       -");
    std::set<std::string> tables;
    for (auto const& [table, counts] : framework.counts.rows) tables.insert(table);
    for (auto const& [table, counts] : baseline.counts.rows) tables.insert(table);
    auto const cell = [](phase_figures const& p, std::string const& table) {
        auto const found = p.counts.rows.find(table);
        auto const counts = found == p.counts.rows.end() ? row_counts{} : found->second;
        auto const each = [&](std::int64_t n) { return static_cast<double>(n) / static_cast<double>(p.sagas); };
        return fmt::format("{:>6.3f}{:>8.3f}{:>8.3f}", each(counts.inserted), each(counts.updated),
                           each(counts.deleted));
    };
    for (auto const& table : tables)
        fmt::print("{:<32}{:>22}{:>22}\n", table, cell(framework, table), cell(baseline, table));
    auto const numbers = [](char const* name, double a, double b) {
        fmt::print("{:<32}{:>22.2f}{:>22.2f}\n", name, a, b);
    };
    auto const per_saga = [](std::int64_t n, phase_figures const& p) {
        return static_cast<double>(n) / static_cast<double>(p.sagas);
    };
    numbers("WAL bytes", per_saga(framework.counts.wal_bytes, framework),
            per_saga(baseline.counts.wal_bytes, baseline));
    numbers("WAL records", per_saga(framework.counts.wal_records, framework),
            per_saga(baseline.counts.wal_records, baseline));
    numbers("WAL full pages", per_saga(framework.counts.wal_full_pages, framework),
            per_saga(baseline.counts.wal_full_pages, baseline));
    numbers("WAL flushes", per_saga(framework.counts.wal_flushes, framework),
            per_saga(baseline.counts.wal_flushes, baseline));
    numbers("commits", per_saga(framework.counts.commits, framework), per_saga(baseline.counts.commits, baseline));
    std::fflush(stdout);
}

void report::write() const
{
    if (!chosen_.json.empty()) write_file(chosen_.json, document_.dump(2) + '\n');
    if (!chosen_.svg.empty()) write_plots();
}

void report::write_plots() const
{
    std::filesystem::create_directories(chosen_.svg);
    std::filesystem::path const folder{chosen_.svg};
    for (auto const& one : document_.at("scenarios")) {
        if (one.at("phases").empty()) continue;
        if (one.at("name") == "tables")
            write_file(folder / "throughput.svg", draw(throughput_by_rows(one.at("phases"))));
        if (one.at("name") == "latency") write_file(folder / "latency.svg", draw(latency_by_rate(one.at("phases"))));
    }
}

}  // namespace skald_bench
