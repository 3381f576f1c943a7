// Latency over HTTP: from when a request was due to its response, and to the end of its saga.
#include "phase.hpp"

#include "bench_tool_sql.hpp"
#include "keys.hpp"
#include "open_load.hpp"

#include "rig/http.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using wall = open_load::wall;

constexpr auto answer_patience = 60s;
constexpr auto look_every = 100us;

double ms_since(wall::time_point then)
{
    return std::chrono::duration<double, std::milli>(wall::now() - then).count();
}

void await_rest(fleet const& services, bench_databases& databases)
{
    services.wait_for("the sagas", 600s, 20ms, [&] {
        return ask(databases.at(orders), sql::under_way, std::string{"-infinity"})[0][0].as<std::int64_t>() == 0;
    });
}

}  // namespace

void place_order(skald::rig::http_client& client, std::string const& key)
{
    auto const answer =
        client.Post("/orders", {{"Idempotency-Key", '"' + key + '"'}},
                    R"({"id":"","customer":"ada","sku":"tea","quantity":1,"cents":1200})", "application/json");
    if (!answer) throw std::runtime_error{"an order was not answered: " + httplib::to_string(answer.error())};
    if (answer->status != 202)
        throw std::runtime_error{fmt::format("an order was answered with {}: {}", answer->status, answer->body)};
}

latency_figures run_alone(bench const& b, bench_databases& databases, implementation who)
{
    databases.settle_down();
    fleet services{b.chosen, b.interruptions, databases, {who, b.chosen.tcp}};
    skald::rig::http_client client{services.http_port(), answer_patience};
    key_maker keys{true, std::random_device{}()};
    std::vector<double> answers, ends;
    auto const began = wall::now();
    auto const measure_from = began + std::chrono::seconds{b.chosen.warm_up};
    auto const until = measure_from + std::chrono::seconds{b.chosen.seconds};
    for (auto now = began; now < until && (b.chosen.sagas == 0 || std::ssize(ends) < b.chosen.sagas);
         now = wall::now()) {
        auto const key = keys.make();
        auto const sent = wall::now();
        place_order(client, key);
        auto const answered = ms_since(sent);
        while (ask(databases.at(orders), sql::state_of, key)[0][0].c_str() != std::string_view{"completed"}) {
            if (wall::now() > until + 60s) throw std::runtime_error{"saga " + key + " does not complete"};
            std::this_thread::sleep_for(look_every);  // as a client does that polls until it has ended
        }
        if (b.chosen.sagas == 0 && sent < measure_from) continue;
        ends.push_back(ms_since(sent));
        answers.push_back(answered);
    }
    await_rest(services, databases);
    services.stop();
    auto const count = std::ssize(ends);
    auto const sum_ms = std::accumulate(ends.begin(), ends.end(), 0.0);
    return {0, count, percentiles_of(std::move(answers)), percentiles_of(std::move(ends)),
            sum_ms > 0 ? static_cast<double>(count) * 1'000 / sum_ms : 0};
}

latency_figures run_at_rate(bench const& b, bench_databases& databases, implementation who, double rate)
{
    databases.settle_down();
    fleet services{b.chosen, b.interruptions, databases, {who, b.chosen.tcp}};
    auto const wanted =
        b.chosen.sagas > 0 ? static_cast<double>(b.chosen.sagas) : rate * (b.chosen.seconds + b.chosen.warm_up);
    auto const warm_up = b.chosen.sagas > 0 ? std::size_t{0} : static_cast<std::size_t>(rate * b.chosen.warm_up);
    auto const since = ask(databases.at(orders), sql::server_now)[0][0].as<std::string>();
    std::vector<std::string> keys(std::max<std::size_t>(1, static_cast<std::size_t>(wanted)));
    key_maker maker{true, std::random_device{}()};
    for (auto& key : keys) key = maker.make();
    open_load load{rate, keys.size(), [&] {
                       auto const client =
                           std::make_shared<skald::rig::http_client>(services.http_port(), answer_patience);
                       return [client, &keys](std::size_t i) { place_order(*client, keys[i]); };
                   }};
    services.wait_for("placing the orders", std::chrono::seconds{b.chosen.seconds + b.chosen.warm_up} + 600s, 20ms,
                      [&] { return load.finished(); });
    await_rest(services, databases);
    services.stop();

    std::unordered_map<std::string, double> ended;
    for (auto const& row : ask(databases.at(orders), sql::ends, since))
        ended.emplace(row[0].c_str(), row[1].as<double>());
    std::vector<double> ends;
    auto last = wall::time_point::min();
    for (std::size_t i = warm_up; i < keys.size(); ++i) {
        auto const at = ended.find(keys[i]);
        if (at == ended.end()) throw std::runtime_error{"saga " + keys[i] + " did not complete"};
        wall::time_point const when{
            std::chrono::duration_cast<wall::duration>(std::chrono::duration<double>{at->second})};
        ends.push_back(load.loop().latency_ms(i, when));
        last = std::max(last, when);
    }
    std::vector<double> answers(load.answers().begin() + static_cast<std::ptrdiff_t>(warm_up), load.answers().end());
    std::chrono::duration<double> const took = last - load.loop().due(warm_up);
    auto const count = std::ssize(ends);
    return {rate, count, percentiles_of(std::move(answers)), percentiles_of(std::move(ends)),
            static_cast<double>(count) / took.count()};
}

}  // namespace skald_bench
