// What the relay and its publisher can do: see bench/relay.sh --help.
#include "raw.hpp"

#include "core/log.hpp"
#include "postgres/postgres_outbox.hpp"
#include "rabbitmq/rabbitmq_transport.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/table_source.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

namespace relay_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto service = "relay-bench";
constexpr std::size_t body_bytes = 256;
constexpr std::size_t window = 1'000;

struct options
{
    std::size_t rows{200'000};
    std::size_t messages{40'000};
    int rounds{3};
    std::string json;
};

struct bench
{
    options chosen;
    std::string database{std::getenv("DATABASE_URL")};
    std::string broker{std::getenv("AMQP_URL")};
    skald::core::stderr_logger log{"bench", skald::core::parse_severity("warning")};
    skald::rabbitmq::rabbitmq_transport transport{{.url = broker, .connection_name = "skald/bench"}, log};
    skald::rabbitmq::address where{skald::rabbitmq::parse_url(broker)};
    std::string body = std::string(body_bytes, 'x');
    std::string figures{};

    void note(std::string const& name, std::string const& value)
    {
        figures += fmt::format("{}\"{}\":{}", figures.empty() ? "" : ",", name, value);
    }
};

double per_second(std::size_t count, clock::duration took)
{
    return static_cast<double>(count) / std::chrono::duration<double>(took).count();
}

// Whatever is published is taken at once, as it is in use: a queue that only grows is another test.
class drained
{
public:
    explicit drained(bench& b) : thread_{[this, &b] { raw_connection{b.where}.drain(service, stop_, taken_); }} {}
    ~drained()
    {
        stop_ = true;
        thread_.join();
    }

    std::size_t taken() const { return taken_; }

private:
    std::atomic<bool> stop_{};
    std::atomic<std::size_t> taken_{};
    std::thread thread_;
};

double publish_by_hand(bench& b)
{
    raw_connection connection{b.where};
    auto const began = clock::now();
    connection.publish(service, b.chosen.messages, window, b.body);
    return per_second(b.chosen.messages, clock::now() - began);
}

double publish_by_skald(bench& b)
{
    auto const publisher = b.transport.open_publisher();
    std::vector<skald::ports::outgoing> batch(window / 2);
    for (auto& one : batch) one.message = {service, "order-1:charge", "charge", "application/json", {}, b.body};
    auto const began = clock::now();
    std::size_t sent = 0, answered = 0;
    while (answered < b.chosen.messages) {
        while (sent < b.chosen.messages && sent - answered <= batch.size()) {
            publisher->send(batch, 10s);
            sent += batch.size();
        }
        for (auto const& receipt : publisher->collect(1s)) {
            if (receipt.status != skald::ports::publish_status::confirmed) throw std::runtime_error{receipt.reason};
            ++answered;
        }
    }
    return per_second(answered, clock::now() - began);
}

void compare_publishers(bench& b)
{
    drained const queue{b};
    fmt::print("publish with confirms, {} B, persistent, quorum queue, {} unconfirmed at most; messages/s\n",
               body_bytes, window);
    fmt::print("{:>8} {:>10} {:>10} {:>8}\n", "round", "by hand", "Skald", "of it");
    std::string rounds;
    for (int round = 1; round <= b.chosen.rounds; ++round) {
        auto const hand = publish_by_hand(b), skald = publish_by_skald(b);
        fmt::print("{:>8} {:>10.0f} {:>10.0f} {:>8.2f}\n", round, hand, skald, skald / hand);
        rounds += fmt::format("{}[{:.0f},{:.0f}]", rounds.empty() ? "" : ",", hand, skald);
    }
    b.note("publish_by_hand_and_skald", '[' + rounds + ']');
}

// The rows that a relay finds when it was away.
void fill(bench const& b)
{
    auto const rows = b.chosen.rows;
    pqxx::connection c{b.database};
    pqxx::nontransaction tx{c};
    constexpr std::size_t at_once = 100'000;
    for (std::size_t done = 0; done < rows; done += at_once)
        tx.exec(fmt::format("SELECT count(skald.enqueue('{}', 'charge', 'order-' || i || ':charge', '{}')) FROM "
                            "generate_series(1, {}) AS i",
                            service, b.body, std::min(at_once, rows - done)));
    tx.exec("CHECKPOINT");
}

std::string move_backlog(bench& b, std::string const& name)
{
    drained const queue{b};
    fill(b);
    auto const publisher = b.transport.open_publisher();
    auto const mark = std::make_shared<skald::postgres::low_water>();
    skald::postgres::postgres_outbox outbox{{.url = b.database}, mark}, other{{.url = b.database}, mark};
    skald::runtime::table_source table{200ms, {outbox, other}};
    skald::runtime::stop_flag stop;
    skald::runtime::publish_loop relay{{}, table, *publisher, stop, b.log, std::mt19937_64{1}};

    std::jthread const moving{[&] { relay.run(); }};
    auto const began = clock::now();
    std::string tenths;
    std::size_t before = 0;
    auto last = began;
    auto const step = std::max<std::size_t>(b.chosen.rows / 10, 1);
    while (before < b.chosen.rows) {
        std::this_thread::sleep_for(20ms);  // between two looks: the relay tells nobody how far it is
        auto const gone = queue.taken();
        if (gone - before < step && gone < b.chosen.rows) continue;
        auto const now = clock::now();
        tenths += fmt::format("{}{:.0f}", tenths.empty() ? "" : ",", per_second(gone - before, now - last));
        before = gone;
        last = now;
    }
    auto const rate = per_second(b.chosen.rows, last - began);
    fmt::print("{:<24} {:>8.0f} rows/s; each tenth: {}\n", name, rate, tenths);
    stop.stop();
    table.wake();
    return fmt::format("{{\"rate\":{:.0f},\"tenths\":[{}]}}", rate, tenths);
}

void move_backlogs(bench& b)
{
    fmt::print("a backlog of {} rows\n", b.chosen.rows);
    b.note("backlog", move_backlog(b, "alone"));
    pqxx::connection other{b.database};
    pqxx::work snapshot{other};
    snapshot.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    snapshot.exec("SELECT count(*) FROM skald.outbox");
    b.note("backlog_with_a_snapshot_held", move_backlog(b, "with a snapshot held"));
    b.note("backlog_again_with_it", move_backlog(b, "again, with the same"));
}

}  // namespace
}  // namespace relay_bench

int main(int argc, char** argv)
try {
    relay_bench::options chosen;
    CLI::App app{"What the relay and its publisher can do. bench/relay.sh calls it."};
    app.add_option("--rows", chosen.rows, "of a backlog")->check(CLI::Range(1'000, 100'000'000));
    app.add_option("--messages", chosen.messages, "for each figure of a publisher")
        ->check(CLI::Range(1'000, 100'000'000));
    app.add_option("--rounds", chosen.rounds, "of each publisher")->check(CLI::Range(1, 100));
    app.add_option("--json", chosen.json, "write the figures to this file");
    CLI11_PARSE(app, argc, argv);
    relay_bench::bench b{chosen};
    b.transport.subscribe({relay_bench::service, 1}).reset();  // declares the queue
    relay_bench::compare_publishers(b);
    relay_bench::move_backlogs(b);
    if (!chosen.json.empty()) std::ofstream{chosen.json} << '{' << b.figures << "}\n";
    return 0;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "relay_bench: %s\n", error.what());
    return 1;
}
