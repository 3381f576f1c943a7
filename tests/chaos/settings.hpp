// The settings of the storm: the command line, and the addresses that `scripts/stack.sh up` prints.
#pragma once

#include "rig/addresses.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace order_storm {

struct settings
{
    double minutes{1};
    double orders_per_second{20};
    int clients{16};
    std::uint64_t seed{};
    std::chrono::seconds calm_max{120};  // how long nothing may end, once the faults have ended, until all has
    std::string transport{"rabbitmq"};   // SKALD_TRANSPORT
    std::string only;                    // one kind of fault, to study it alone
    std::filesystem::path services;
    std::filesystem::path logs;
    std::filesystem::path json;
    std::filesystem::path gateway;         // the program; empty: wallets pay
    std::filesystem::path stack_script;    // scripts/stack.sh
    std::filesystem::path stack;           // the folder of the stack
    std::filesystem::path cluster_script;  // scripts/broker_cluster.sh, if AMQP_URL is a cluster started by it, or
                                           // scripts/kafka.sh
    std::filesystem::path cluster;         // its folder; empty: the broker is the stack's
    std::vector<int> kafka_ports;          // of each node: where it listens, and where it says that it does
    std::string commit;                    // what is tested, for the report

    std::size_t nodes() const { return kafka_ports.empty() ? 3 : kafka_ports.size() / 2; }  // of a cluster

    skald::rig::addresses shop;  // the databases and the broker, as they are without a proxy
};

extern char const usage_text[];

/// Throws skald::rig::usage_error.
settings parse_settings(int argument_count, char const* const* arguments);

}  // namespace order_storm
