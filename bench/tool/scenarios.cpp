#include "scenarios.hpp"

#include "bench_tool_sql.hpp"
#include "calls.hpp"
#include "entry.hpp"
#include "guards.hpp"
#include "waits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace skald_bench {
namespace {

/// The databases, with their tables empty.
class fresh_databases
{
public:
    explicit fresh_databases(bench const& b, bool shop = false) : databases{b.chosen.database_url, b.chosen.tcp}
    {
        make_tables(b.chosen, b.interruptions, databases, shop);
    }
    bench_databases databases;
};

std::vector<implementation> who_runs(options const& chosen)
{
    if (chosen.only_baseline) return {implementation::baseline};
    if (!chosen.transports.empty()) {
        std::vector<implementation> who;
        if (chosen.is_over("rabbitmq")) who.push_back(implementation::framework);
        if (chosen.is_over("postgres")) who.push_back(implementation::inbox);
        if (chosen.is_over("kafka")) who.push_back(implementation::kafka);
        return who;
    }
    if (chosen.baseline) return {implementation::framework, implementation::baseline};
    return {implementation::framework};
}

phase_request like_the_options(bench const& b, std::string label)
{
    phase_request asked;
    asked.label = std::move(label);
    asked.tcp = b.chosen.tcp;
    return asked;
}

/// A B A B: both do the same in turn, and each pair gives a ratio. Returns the pair of the last round.
std::vector<phase_figures> take_turns(bench const& b, report& out, bench_databases& databases,
                                      phase_request const& asked)
{
    std::vector<phase_figures> pair;
    for (int round = 1; round <= b.chosen.rounds; ++round) {
        pair.clear();
        for (auto const who : who_runs(b.chosen)) {
            auto one = asked;
            one.who = who;
            if (b.chosen.rounds > 1) one.label += fmt::format(", round {}", round);
            pair.push_back(run_phase(b, databases, one));
            out.add(pair.back());
        }
        if (pair.size() == 2)
            out.add_ratio(pair[0].asked.label, {name_of(pair[0].asked.who), pair[0].per_second},
                          {name_of(pair[1].asked.who), pair[1].per_second});
    }
    return pair;
}

/// What the options request; without --shared, the shared rows and those that no orders share.
std::vector<shop_request> shops_asked_for(options const& chosen, int processes)
{
    auto const labelled = [&](shop_request one, std::string label) {
        one.processes = processes;
        one.label = processes == 1 ? std::move(label) : fmt::format("{}, {} processes", label, processes);
        return one;
    };
    auto const given = fmt::format("{} customers, {} skus", chosen.customers, chosen.skus);
    shop_request const shared{{}, 1, chosen.customers, chosen.skus, true, {}}, unshared{{}, 1, 0, 0, false, {}};
    if (chosen.shared.empty()) return {labelled(shared, given), labelled(unshared, "none shared")};
    std::vector<shop_request> asked;
    for (auto const& rows : chosen.shared) {
        if (rows == "none") asked.push_back(labelled(unshared, "none shared"));
        else {
            auto const count = std::stoi(rows);
            asked.push_back(
                labelled({{}, 1, count, count, true, {}}, fmt::format("{} customers, {} skus", count, count)));
        }
    }
    return asked;
}

/// Each on fresh tables. Each implementation runs with shared and unshared rows, which shows the cost of sharing.
void compare_shops(bench const& b, report& out, int processes)
{
    std::map<implementation, double> unshared;
    std::vector<shop_figures> shared;
    for (auto one : shops_asked_for(b.chosen, processes)) {
        std::map<implementation, double> rates;
        for (auto const who : who_runs(b.chosen)) {
            fresh_databases w{b, true};
            one.who = who;
            auto const made = run_shop(b, w.databases, one);
            out.add(made);
            rates[who] = made.per_second;
            if (one.shared) shared.push_back(made);
            else unshared[who] = made.per_second;
        }
        if (rates.size() == 2)
            out.add_ratio(one.label, {name_of(rates.begin()->first), rates.begin()->second},
                          {name_of(rates.rbegin()->first), rates.rbegin()->second});
    }
    for (auto const& made : shared)
        if (unshared.contains(made.asked.who))
            out.add_ratio(fmt::format("{}, {}", made.asked.label, name_of(made.asked.who)), {"shared", made.per_second},
                          {"unshared", unshared[made.asked.who]});
}

void shop(bench const& b, report& out)
{
    auto const& c = b.chosen;
    out.begin("shop", fmt::format("the order example as shipped, all sagas started at once; zipf {:g}, {} % out "
                                  "of stock, {} % not covered, at most {} s",
                                  c.zipf, c.declined_percent, c.broke_percent, c.limit_seconds));
    for (int round = 1; round <= c.rounds; ++round)
        for (auto const processes : c.processes) compare_shops(b, out, processes);
}

void throughput(bench const& b, report& out)
{
    out.begin("throughput", fmt::format("{} sagas under way all the time", b.chosen.in_flight));
    fresh_databases w{b};
    auto const pair = take_turns(b, out, w.databases, like_the_options(b, "throughput"));
    if (pair.size() == 2) out.compare(pair[0], pair[1]);
}

void latency(bench const& b, report& out)
{
    out.begin("latency", "orders over HTTP; open loop counts from when each was due, whatever became of those before");
    if (b.chosen.only_baseline) return out.say("the baseline has no HTTP entry: nothing to measure");
    fresh_databases w{b};
    for (auto const who : who_runs(b.chosen)) {
        if (who == implementation::baseline) continue;
        if (!b.chosen.transports.empty()) out.say(name_of(who) + ':');
        out.add(run_alone(b, w.databases, who));
        for (auto const rate : b.chosen.rates) out.add(run_at_rate(b, w.databases, who, rate));
    }
}

void tables(bench const& b, report& out)
{
    out.begin("tables", "old rows in skald.idempotency of each of the three databases");
    for (auto const& keys : b.chosen.keys)
        for (auto const rows : b.chosen.rows) {
            fresh_databases w{b};
            w.databases.add_old_records(rows, keys == "ordered");
            if (rows > 0) {
                auto const sizes = ask(w.databases.at(orders), sql::key_bytes)[0];
                out.say(fmt::format("({} rows loaded: index {} MiB, table {} MiB, in each database)", rows,
                                    sizes[0].as<std::int64_t>() / 1'048'576, sizes[1].as<std::int64_t>() / 1'048'576));
            }
            auto asked = like_the_options(b, fmt::format("{} rows, {} keys", rows, keys));
            asked.ordered_keys = keys == "ordered";
            asked.about = {{"rows", rows}, {"keys", keys}};
            take_turns(b, out, w.databases, asked);
        }
}

void snapshot(bench const& b, report& out)
{
    out.begin("snapshot",
              fmt::format("another session holds a snapshot in each database for {} s", b.chosen.hold_seconds));
    fresh_databases w{b};
    for (auto const who : who_runs(b.chosen)) {
        auto free = like_the_options(b, "no snapshot");
        free.who = who;
        auto const before = run_phase(b, w.databases, free);
        out.add(before);
        auto held = like_the_options(b, "snapshot held");
        held.who = who;
        held.hold_snapshot = true;
        held.seconds = b.chosen.hold_seconds;
        auto const during = run_phase(b, w.databases, held);
        out.add(during);
        std::string bars;
        for (auto const part : during.per_second_by_part) bars += fmt::format(" {:.0f}", part);
        out.say(fmt::format("{}: {:.1f} % of the rate without; in its last tenth {:.1f} %. By tenths:{}", name_of(who),
                            during.per_second / before.per_second * 100,
                            during.per_second_by_part.back() / before.per_second * 100, bars));
    }
}

void backlog(bench const& b, report& out)
{
    out.begin("backlog", fmt::format("{} messages in one outbox, the services stopped; then that service starts",
                                     b.chosen.backlog));
    fresh_databases w{b};
    for (int round = 1; round <= b.chosen.rounds; ++round)
        for (auto const who : who_runs(b.chosen)) {
            if (who == implementation::kafka) out.say("kafka: not measured, nobody would take what is sent");
            else out.add(run_backlog(b, w.databases, who));
        }
}

void entry(bench const& b, report& out)
{
    out.begin("entry",
              fmt::format("requests that insert one row, on {} connections, closed loop", b.chosen.connections));
    fresh_databases w{b};
    for (int round = 1; round <= b.chosen.rounds; ++round) {
        std::map<implementation, double> rates;
        for (auto const who : who_runs(b.chosen)) {
            auto const made = who == implementation::framework ? run_entry(b, w.databases)
                                                               : std::vector{run_entry_baseline(b, w.databases)};
            rates[who] = made.front().per_second;
            for (auto const& one : made) out.add(one);
        }
        if (rates.size() == 2)
            out.add_ratio(fmt::format("entry, round {}", round), {"framework", rates[implementation::framework]},
                          {"baseline", rates[implementation::baseline]});
    }
}

void messages(bench const& b, report& out)
{
    out.begin("messages", "a row and a message for each delivery of a full queue: by a step, and by a message handler");
    if (b.chosen.only_baseline) return out.say("the baseline has no message handlers: nothing to measure");
    auto chosen = b.chosen;
    chosen.each = true;  // a handler has no batches of its own
    bench const one_by_one{chosen, b.interruptions};
    for (int round = 1; round <= b.chosen.rounds; ++round) {
        for (auto const who : who_runs(b.chosen)) {
            if (who == implementation::baseline || who == implementation::kafka) continue;
            fresh_databases w{one_by_one};
            if (!b.chosen.transports.empty()) out.say(name_of(who) + ':');
            auto const step = run_messages(one_by_one, w.databases, who, false);
            out.add(step);
            auto const handler = run_messages(one_by_one, w.databases, who, true);
            out.add(handler);
            out.add_ratio(fmt::format("messages, round {}", round), {"handler", handler.per_second},
                          {"step", step.per_second});
        }
    }
}

void guards(bench const& b, report& out)
{
    out.begin("guards",
              "requests that insert one row, by two processes that share a database and a Redis, and keep nothing in "
              "memory; closed loop");
    if (b.chosen.only_baseline) return out.say("the baseline has nothing in front: nothing to measure");
    fresh_databases w{b};
    run_guards(b, w.databases, [&](guard_figures const& one) { out.add(one); });
}

void waits(bench const& b, report& out)
{
    out.begin("waits", "sagas that wait for a signal, or for a time, and what they hold meanwhile");
    if (b.chosen.only_baseline) return out.say("the baseline has no waits: nothing to measure");
    run_signals(b, out);
    run_timers(b, out);
}

void transports(bench const& b, report& out)
{
    out.begin("transports", "orders over HTTP, so many under way all the time, over each transport in turn");
    if (b.chosen.only_baseline) return out.say("the baseline has no HTTP entry: nothing to measure");
    fresh_databases w{b};
    for (auto const under_way : b.chosen.under_way)
        for (int round = 1; round <= b.chosen.rounds; ++round)
            for (auto const who : who_runs(b.chosen))
                if (who != implementation::baseline) out.add(run_over_transport(b, w.databases, who, under_way));
}

void calls(bench const& b, report& out)
{
    out.begin("calls", "long calls whose owners are killed, or stand still");
    if (b.chosen.only_baseline) return out.say("the baseline makes no calls: nothing to measure");
    run_job(b, out);
    run_stopped_owner(b, out);
}

}  // namespace

void run_scenarios(bench const& b, report& out)
{
    using scenario = void (*)(bench const&, report&);
    constexpr scenario all[]{shop,  throughput, latency, tables, snapshot, backlog,
                             entry, messages,   guards,  waits,  calls,    transports};
    static_assert(std::size(all) == std::size(scenario_names));
    for (std::size_t i = 0; i < std::size(all); ++i)
        if (b.chosen.runs(scenario_names[i])) all[i](b, out);
}

}  // namespace skald_bench
