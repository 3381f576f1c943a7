// redis_faults: requests to two processes that share a database and a Redis, while Redis and the processes fail in
// every way that is listed in storm.cpp. Effects that are there twice, and responses that are not their keys', are
// counted.
//
//     redis_faults [--requests N] [--seed N] [--way NAME]...     N for each way [34000]; cache_aside, lock, accelerator
//
// Ends with 1 if there are any; with --way redis_only, which is at least once, they are counted and do not matter.
#include "clients.hpp"
#include "shop.hpp"
#include "storm.hpp"

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace {

using namespace skald;

constexpr int client_threads = 12;

struct options
{
    std::int64_t requests{34'000};
    std::uint64_t seed{1};
    std::vector<std::string> ways;
};

options read(std::vector<std::string> const& arguments)
{
    options chosen;
    for (std::size_t n = 0; n + 1 < arguments.size(); n += 2) {
        if (arguments[n] == "--requests") chosen.requests = std::stoll(arguments[n + 1]);
        else if (arguments[n] == "--seed") chosen.seed = std::stoull(arguments[n + 1]);
        else if (arguments[n] == "--way") chosen.ways.push_back(arguments[n + 1]);
        else throw std::invalid_argument{"unknown argument " + arguments[n]};
    }
    if (arguments.size() % 2 != 0) throw std::invalid_argument{"an argument without its value"};
    if (chosen.ways.empty()) chosen.ways = {"cache_aside", "lock", "accelerator"};
    return chosen;
}

/// How many keys have more than one effect, or one that is not the response's.
std::int64_t count_bad_effects(test::database const& db, std::map<std::string, std::string> const& responses)
{
    std::map<std::string, std::vector<std::string>> effects;
    for (auto const& row : db.run("SELECT key, mark FROM effect")) effects[row[0].c_str()].push_back(row[1].c_str());
    std::int64_t bad = 0;
    for (auto const& [key, marks] : effects) bad += marks.size() > 1 ? 1 : 0;
    for (auto const& [key, response] : responses) {
        auto const& marks = effects[key];
        bool const is_there = !marks.empty() && response == key + ' ' + marks.front();
        bad += is_there || marks.size() > 1 ? 0 : 1;
    }
    return bad;
}

/// Of a figure that each has printed at its end.
std::int64_t sum_of(std::vector<std::unique_ptr<rig::process>> const& shops, std::string const& name)
{
    std::int64_t sum = 0;
    for (auto const& shop : shops) {
        auto const log = shop->log();
        if (auto const at = log.rfind(name); at != std::string::npos) sum += std::stoll(log.substr(at + name.size()));
    }
    return sum;
}

std::unique_ptr<rig::process> start_shop(std::string const& program, std::uint16_t port, std::string const& way,
                                         std::string const& redis_url, std::string const& database_url)
{
    auto shop = std::make_unique<rig::process>(rig::process_settings{.program = program,
                                                                     .arguments = {"--serve"},
                                                                     .variables = {{"PORT", std::to_string(port)},
                                                                                   {"SKALD_GUARD", way},
                                                                                   {"SKALD_REDIS_URL", redis_url},
                                                                                   {"DATABASE_URL", database_url}},
                                                                     .inherits_environment = true,
                                                                     .name = "shop " + std::to_string(port)});
    shop->start();
    if (!testing::wait_until([&] { return shop->http_port() == port; }))
        throw std::runtime_error{"a shop does not start: " + shop->log()};
    return shop;
}

bool run_way(std::string const& program, std::string const& way, options const& chosen)
{
    test::database const db;
    db.run("CREATE TABLE effect (key text, mark text)");
    test::redis_nodes redis;
    std::vector<std::uint16_t> const ports{rig::find_free_port(), rig::find_free_port()};
    std::vector<std::unique_ptr<rig::process>> shops;
    for (auto const port : ports) shops.push_back(start_shop(program, port, way, redis.url(), db.url()));

    bool const may_repeat = way == "redis_only";
    test::clients clients{may_repeat ? "/repeatable" : "/guarded", ports, chosen.requests, client_threads};
    test::storm storm{redis, shops, db, chosen.seed};
    while (!clients.are_done()) storm.strike();
    auto const heard = clients.judge();
    auto const bad = count_bad_effects(db, clients.responses());
    for (auto const& shop : shops) shop->terminate();
    auto const by_redis = sum_of(shops, " result=") + sum_of(shops, " held=");

    fmt::print("{}: {} requests: {} made, {} replayed, {} mismatch, {} in flight, {} refused, {} lost\n", way,
               heard.all(), heard.made, heard.replayed, heard.mismatch, heard.in_flight, heard.refused, heard.lost);
    for (auto const& [what, count] : storm.counts()) fmt::print("    {:>4} x {}\n", count, what);
    fmt::print("    {} keys lost by failovers; the processes that were not killed last had {} answers of Redis, and {} "
               "times none\n    double or wrong effects: {}, wrong responses: {}\n",
               storm.keys_lost(), by_redis, sum_of(shops, " away="), bad, heard.wrong);
    std::fflush(stdout);
    if (heard.made == 0 || heard.replayed == 0 || by_redis == 0)
        throw std::runtime_error{"nothing was made, or replayed, or answered by Redis: this shows nothing"};
    return may_repeat || (bad == 0 && heard.wrong == 0);
}

}  // namespace

int main(int argc, char** argv)
try {
    std::vector<std::string> const arguments{argv + 1, argv + argc};
    if (arguments == std::vector<std::string>{"--serve"}) return test::serve();
    std::signal(SIGPIPE, SIG_IGN);
    auto const chosen = read(arguments);
    bool is_well = true;
    for (auto const& way : chosen.ways) is_well = run_way(argv[0], way, chosen) && is_well;
    return is_well ? 0 : 1;
}
catch (std::exception const& error) {
    fmt::print(stderr, "redis_faults: {}\n", error.what());
    return 2;
}
