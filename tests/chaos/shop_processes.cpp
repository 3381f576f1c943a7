#include "shop_processes.hpp"

#include "rig/order_plan.hpp"

#include <array>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace order_storm {
namespace {

using skald::rig::service_count;
using skald::rig::service_names;

struct planned_process
{
    std::string name;
    std::string program;
    std::string database;
    std::vector<std::string> arguments;
};

std::filesystem::path log_of(settings const& chosen, std::string const& name, std::size_t number)
{
    return chosen.logs / fmt::format("{}-{}.log", name, number);
}

std::vector<planned_process> plan_processes(settings const& chosen, front const& where)
{
    std::array const programs{(chosen.services / "order_service").string(), std::string{SKALD_DEADLY_PAYMENTS},
                              (chosen.services / "shipping_service").string()};
    std::array const databases{chosen.shop.orders_database, chosen.shop.payments_database,
                               chosen.shop.shipping_database};
    std::vector<planned_process> all;
    for (std::size_t n = 0; n < service_count * processes_each; ++n) {
        auto const i = n % service_count;
        all.push_back({std::string{service_names[i]}, programs[i], databases[i], {"--purge-seconds=2"}});
        if (i == skald::rig::orders)
            all.back().arguments.push_back(fmt::format("--listen=127.0.0.1:{}", n < service_count ? where.port : 0));
        if (i == skald::rig::payments && !where.gateway.empty())
            all.back().arguments.insert(all.back().arguments.begin(), {"--gateway", where.gateway});
    }
    all.push_back({"kiosk", SKALD_KIOSK, where.kiosk_database, {"--purge-seconds=2"}});
    return all;
}

// Each reaches the others as it reaches its own database.
std::string write_peers(settings const& chosen, front const& where, network const& databases)
{
    auto const path = chosen.logs / "peers";
    std::ofstream{path} << "orders=" << databases.through(chosen.shop.orders_database)
                        << "\npayments=" << databases.through(chosen.shop.payments_database)
                        << "\nshipping=" << databases.through(chosen.shop.shipping_database)
                        << "\nkiosk=" << databases.through(where.kiosk_database) << '\n';
    return path.string();
}

// Short, so that a process which is halted for some seconds loses its partitions.
std::string write_kafka_properties(settings const& chosen)
{
    auto const path = chosen.logs / "kafka.properties";
    std::ofstream{path} << "session.timeout.ms=6000\nmax.poll.interval.ms=6000\n";
    return path.string();
}

}  // namespace

std::vector<std::unique_ptr<skald::rig::process>> make_processes(settings const& chosen, front const& where,
                                                                 network const& database_network,
                                                                 network const& broker_network)
{
    std::vector<std::unique_ptr<skald::rig::process>> all;
    for (auto const& planned : plan_processes(chosen, where)) {
        skald::rig::process_settings made;
        made.name = planned.name;
        made.program = planned.program;
        made.arguments = planned.arguments;
        made.inherits_environment = true;
        made.variables = {{"DATABASE_URL", database_network.through(planned.database)},
                          {"SKALD_TRANSPORT", chosen.transport},
                          {"SKALD_LOG_LEVEL", "debug"}};
        if (chosen.transport == "rabbitmq") made.variables["AMQP_URL"] = broker_network.through(chosen.shop.broker);
        if (chosen.transport == "postgres")
            made.variables["SKALD_PEERS_FILE"] = write_peers(chosen, where, database_network);
        if (chosen.transport == "kafka") {
            made.variables["SKALD_KAFKA_BROKERS"] = broker_network.addresses();
            made.variables["SKALD_KAFKA_PROPERTIES"] = write_kafka_properties(chosen);
            made.variables["SKALD_KAFKA_PARTITIONS"] = "4";
        }
        made.log = log_of(chosen, planned.name, all.size() / service_count + 1);
        all.push_back(std::make_unique<skald::rig::process>(std::move(made)));
    }
    return all;
}

network way_to_broker(settings const& chosen)
{
    if (chosen.transport == "kafka") return network{chosen.kafka_ports};
    return chosen.transport == "rabbitmq" ? network{chosen.shop.broker} : network{};
}

void count_deliveries(settings const& chosen, storm_summary& run)
{
    for (std::size_t n = 0; n < service_count * processes_each; ++n) {
        std::ifstream log{log_of(chosen, std::string{service_names[n % service_count]}, n / service_count + 1)};
        for (std::string line; std::getline(log, line);) {
            bool const duplicate = line.find(" step.duplicate ") != std::string::npos;
            bool const processed = line.find(" step.completed ") != std::string::npos ||
                                   line.find(" step.rejected ") != std::string::npos ||
                                   line.find(" step.cancelled ") != std::string::npos;
            run.duplicates += duplicate;
            run.deliveries += duplicate || processed;
        }
    }
}

}  // namespace order_storm
