#include "entry.hpp"

#include "bench_tool_sql.hpp"
#include "keys.hpp"

#include "rig/http.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto answer_within = 60s;
constexpr std::size_t replayed_keys = 2'000;

/// Called on each thread: opens a connection of its own, and returns what is done again and again.
using work = std::function<std::function<void()>(int)>;

struct loop_result
{
    double per_second{};
    std::vector<double> ms;  // of those after the warm-up
};

/// For a fixed time, or a fixed number of times if the options give one.
loop_result run_closed_loop(bench const& b, work const& make)
{
    auto const measure_from = clock::now() + std::chrono::seconds{b.chosen.sagas > 0 ? 0 : b.chosen.warm_up};
    auto const until = measure_from + std::chrono::seconds{b.chosen.seconds};
    std::atomic<int> left{b.chosen.sagas};
    loop_result all;
    std::exception_ptr failure;
    std::mutex mutex;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < b.chosen.connections; ++i)
            threads.emplace_back([&, i] {
                std::vector<double> ms;
                try {
                    auto const once = make(i);
                    for (auto from = clock::now(); b.chosen.sagas > 0 ? --left >= 0 : from < until;) {
                        once();
                        auto const now = clock::now();
                        if (from >= measure_from)
                            ms.push_back(std::chrono::duration<double, std::milli>(now - from).count());
                        from = now;
                    }
                }
                catch (...) {
                    std::lock_guard const lock{mutex};
                    failure = std::current_exception();
                }
                std::lock_guard const lock{mutex};
                all.ms.insert(all.ms.end(), ms.begin(), ms.end());
            });
    }
    if (failure) std::rethrow_exception(failure);
    std::chrono::duration<double> const took = clock::now() - measure_from;
    all.per_second = static_cast<double>(all.ms.size()) / took.count();
    return all;
}

entry_figures figures_of(bench const& b, implementation who, request_kind kind, loop_result&& measured)
{
    auto const count = std::ssize(measured.ms);
    return {who, kind, b.chosen.connections, count, measured.per_second, percentiles_of(std::move(measured.ms))};
}

void post_row(skald::rig::http_client& client, std::string const& key, bool may_be_replay, bool must_be_replay)
{
    auto const answer = client.Post("/rows", {{"Idempotency-Key", '"' + key + '"'}}, R"({"n":1})", "application/json");
    if (!answer) throw std::runtime_error{"a request was not answered: " + httplib::to_string(answer.error())};
    bool const is_replay = answer->get_header_value("Idempotency-Replayed") == "true";
    if (answer->status != 201 || (is_replay ? !may_be_replay : must_be_replay))
        throw std::runtime_error{fmt::format("a request was answered with {}{}: {}", answer->status,
                                             is_replay ? ", replayed" : "", answer->body)};
}

std::int64_t rows(bench_databases& databases)
{
    return ask(databases.at(orders), sql::count_rows)[0][0].as<std::int64_t>();
}

}  // namespace

std::vector<entry_figures> run_entry(bench const& b, bench_databases& databases)
{
    databases.settle_down();
    // As many transactions at a time as the baseline has.
    fleet_shape shape{.tcp = b.chosen.tcp, .services = {orders}};
    shape.variables = {{"SKALD_HTTP_LANES", std::to_string(b.chosen.connections)}};
    fleet services{b.chosen, b.interruptions, databases, shape};
    auto const port = services.http_port();
    std::vector<entry_figures> made;
    auto const measure = [&](request_kind kind, work const& make) {
        made.push_back(figures_of(b, implementation::framework, kind, run_closed_loop(b, make)));
    };
    measure(request_kind::fresh, [&](int) {
        auto client = std::make_shared<skald::rig::http_client>(port, answer_within);
        auto keys = std::make_shared<key_maker>(true, std::random_device{}());
        return [=] { post_row(*client, keys->make(), false, false); };
    });
    if (rows(databases) < made.back().requests) throw std::runtime_error{"not every request inserted a row"};

    key_maker maker{true, std::random_device{}()};
    std::vector<std::string> keys(replayed_keys);
    skald::rig::http_client first{port, answer_within};
    for (auto& key : keys) post_row(first, key = maker.make(), false, false);
    auto const before = rows(databases);
    measure(request_kind::replayed, [&](int connection) {
        auto client = std::make_shared<skald::rig::http_client>(port, answer_within);
        auto next = std::make_shared<std::size_t>(static_cast<std::size_t>(connection) * 97);
        return [=, &keys] { post_row(*client, keys[(*next)++ % keys.size()], true, true); };
    });
    if (rows(databases) != before) throw std::runtime_error{"replays inserted rows"};
    services.stop();
    return made;
}

entry_figures run_entry_baseline(bench const& b, bench_databases& databases)
{
    databases.settle_down();
    auto measured = run_closed_loop(b, [&](int) {
        auto connection = std::make_shared<pqxx::connection>(databases.url(orders));
        auto keys = std::make_shared<key_maker>(true, std::random_device{}());
        for (auto const prepared : {sql::prepare_claim, sql::prepare_row, sql::prepare_answer})
            pqxx::nontransaction{*connection}.exec(std::string{prepared});
        return [=] {
            auto const key = keys->make();
            pqxx::nontransaction all{*connection};
            all.exec(fmt::format("BEGIN; EXECUTE claim('{}')", key));
            all.exec(fmt::format("EXECUTE add_row('{}')", key));
            all.exec(fmt::format("EXECUTE answer('{}'); COMMIT", key));
        };
    });
    return figures_of(b, implementation::baseline, request_kind::fresh, std::move(measured));
}

}  // namespace skald_bench
