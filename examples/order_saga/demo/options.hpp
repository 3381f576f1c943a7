// The settings of the demonstration: the command line, and the addresses that `scripts/stack.sh up` prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "rig/addresses.hpp"

namespace order_demo {

using namespace skald::rig;

struct options
{
    int orders{1'000};
    int clients{16};
    std::uint64_t seed{};                // chosen at random by parse_options() if not on the command line
    std::filesystem::path services;      // the folder of order_service, payment_service and shipping_service
    std::filesystem::path logs;          // the folder for their logs
    std::filesystem::path payments;      // the program of that service; empty: payment_service
    std::filesystem::path shipping;      // likewise
    std::filesystem::path gateway;       // the program, which misbehaves, and charges; empty: wallets pay
    std::string transport{"rabbitmq"};   // or kafka, postgres
    std::filesystem::path json;          // where to write the figures; empty: nowhere
    std::chrono::seconds patience{180};  // how long nothing at all may happen before it gives up

    addresses servers;
};

extern char const usage_text[];

/// Throws usage_error. `--help` is the caller's business.
options parse_options(int argument_count, char const* const* arguments);

}  // namespace order_demo
