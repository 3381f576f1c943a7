#include "fleet.hpp"

#include "broker_extras.hpp"
#include "kafka_extras.hpp"

#include "rig/broker.hpp"
#include "rig/http.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto start_patience = 60s;
constexpr auto stop_patience = 30s;
constexpr std::array<char const*, 3> shop_programs{"order_service", "payment_service", "shipping_service"};

std::string queue_of(std::size_t service, bool shop)
{
    return fmt::format("skald.{}{}", shop ? "" : "bench-", service_names.at(service));
}

std::string peers_file(options const& chosen)
{
    return (std::filesystem::path{chosen.logs} / "peers").string();
}

}  // namespace

std::string name_of(implementation who)
{
    switch (who) {
    case implementation::framework: return "framework";
    case implementation::inbox: return "no broker";
    case implementation::kafka: return "kafka";
    default: return "baseline";
    }
}

int broker_port(options const& chosen, implementation who)
{
    if (who == implementation::inbox) return 0;
    if (who != implementation::kafka) return port_of(chosen.broker_url);
    return std::stoi(chosen.kafka_brokers.substr(chosen.kafka_brokers.find(':') + 1));
}

fleet::fleet(options const& chosen, skald::rig::signals const& interruptions, bench_databases const& databases,
             fleet_shape shape)
    : interruptions_{interruptions}, shape_{std::move(shape)}
{
    start_all(chosen, databases);
    skald::rig::broker observer{chosen.broker_url};
    wait_for("starting the services", start_patience, 20ms, [&] {
        return take_deliveries(chosen, observer, databases) && std::ranges::all_of(http_ports_, skald::rig::is_ready);
    });
}

void fleet::start_all(options const& chosen, bench_databases const& databases)
{
    if (shape_.who == implementation::inbox) {
        std::ofstream file{peers_file(chosen)};
        for (auto const service : {orders, payments, shipping})
            file << (shape_.shop ? "" : "bench-") << service_names.at(service) << '='
                 << databases.url(service, shape_.tcp) << '\n';
    }
    for (auto const service : shape_.services)
        for (int n = 1; n <= shape_.processes; ++n) start(chosen, databases, service, n);
}

bool fleet::take_deliveries(options const& chosen, skald::rig::broker& observer, bench_databases const& databases) const
{
    auto const wanted = static_cast<std::uint32_t>(shape_.processes);
    return std::ranges::all_of(shape_.services, [&](std::size_t service) {
        if (shape_.who == implementation::inbox) {
            pqxx::connection c{databases.url(service)};
            return pqxx::nontransaction{c}.exec("SELECT count(*) FROM skald.consumer")[0][0].as<std::uint32_t>() >=
                   wanted;
        }
        if (shape_.who == implementation::kafka)
            return consumers_in_kafka(chosen.kafka_brokers, queue_of(service, shape_.shop).substr(6)) >=
                   shape_.processes;
        auto const queue = observer.look_at(queue_of(service, shape_.shop));
        return queue && queue->consumers >= wanted;
    });
}

void fleet::start(options const& chosen, bench_databases const& databases, std::size_t service, int number)
{
    bool const by_framework = shape_.who != implementation::baseline;
    skald::rig::process_settings one;
    one.name = fmt::format("{} {}", name_of(shape_.who), service_names.at(service));
    if (shape_.processes > 1) one.name += fmt::format(" {}", number);
    auto file = one.name + ".log";
    std::ranges::replace(file, ' ', '-');
    one.log = std::filesystem::path{chosen.logs} / file;
    one.inherits_environment = true;
    one.variables = {{"DATABASE_URL", databases.url(service, shape_.tcp)}, {"AMQP_URL", chosen.broker_url}};
    one.variables.insert(shape_.variables.begin(), shape_.variables.end());
    if (shape_.who == implementation::inbox) {
        one.variables["SKALD_TRANSPORT"] = "postgres";
        one.variables["SKALD_PEERS_FILE"] = peers_file(chosen);
    }
    if (shape_.who == implementation::kafka) {
        one.variables["SKALD_TRANSPORT"] = "kafka";
        one.variables["SKALD_KAFKA_BROKERS"] = chosen.kafka_brokers;
    }
    if (by_framework && shape_.shop) one.program = (chosen.shop_programs / shop_programs.at(service)).string();
    else {
        one.program = (chosen.programs / (by_framework ? "skald-bench-service" : "skald-bench-baseline")).string();
        one.arguments = {service_names.at(service)};
        if (shape_.shop) one.arguments.emplace_back("--shop");
        if (chosen.each && !shape_.shop) one.arguments.emplace_back("--each");
    }
    if (by_framework && service == orders) {
        auto const port = skald::rig::find_free_port();
        http_ports_.push_back(port);
        one.arguments.insert(one.arguments.end(), {"--listen", fmt::format("127.0.0.1:{}", port)});
    }
    if (!by_framework)
        one.arguments.insert(one.arguments.end(), {"--lanes", std::to_string(chosen.baseline_lanes), "--batch",
                                                   std::to_string(chosen.baseline_batch), "--prefetch",
                                                   std::to_string(2 * chosen.baseline_batch)});
    services_.push_back(std::make_unique<skald::rig::process>(std::move(one)));
    services_.back()->start();
}

void fleet::check_that_all_run() const
{
    for (auto const& one : services_)
        if (auto const how = one->ended())
            throw std::runtime_error{
                fmt::format("{} ended by itself with {}:\n{}", one->name(), in_words(*how), one->log_tail())};
}

void fleet::wait_for(char const* what, std::chrono::seconds patience, std::chrono::milliseconds tick,
                     std::function<bool()> const& reached) const
{
    for (auto const until = clock::now() + patience; !reached();) {
        if (clock::now() > until) {
            std::string logs;
            for (auto const& one : services_) logs += fmt::format("\n{}:\n{}", one->name(), one->log_tail());
            throw std::runtime_error{fmt::format("{} took longer than {} s{}", what, patience.count(), logs)};
        }
        check_that_all_run();
        interruptions_.wait_for(tick);
    }
}

void fleet::stop(bool at_work)
{
    for (auto const& one : services_) one->kill(SIGTERM);
    auto const until = clock::now() + stop_patience;
    for (auto const& one : services_) {
        std::optional<skald::rig::ending> how;
        while (!(how = one->ended()) && clock::now() < until) interruptions_.wait_for(10ms);
        bool const in_order = how && (how->code == 0 || (at_work && how->code == 75));
        if (!in_order)
            throw std::runtime_error{fmt::format("{} did not end in order ({}):\n{}", one->name(),
                                                 how ? in_words(*how) : "it still runs", one->log_tail())};
    }
}

std::vector<fleet::process> fleet::processes() const
{
    std::vector<process> found;
    for (auto const& one : services_) found.push_back({one->name(), one->pid()});
    return found;
}

void make_tables(options const& chosen, skald::rig::signals const& interruptions, bench_databases const& databases,
                 bool shop)
{
    // What an interrupted run left in the queues belongs to sagas that are gone with their tables.
    broker_connection broker{chosen.broker_url};
    for (auto const service : {orders, payments, shipping})
        for (auto const* of_it : {"", ".database"}) broker.delete_queue((queue_of(service, shop) + of_it).c_str());
    if (chosen.is_over("kafka")) {
        std::vector<std::string> services;
        for (auto const service : {orders, payments, shipping}) services.push_back(queue_of(service, shop).substr(6));
        empty_kafka(chosen.kafka_brokers, services);
    }
    fleet_shape shape;
    shape.shop = shop;
    fleet{chosen, interruptions, databases, shape}.stop();
}

}  // namespace skald_bench
