#include "options.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <random>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace order_demo {
namespace {

constexpr int orders_max = 100'000;
constexpr int clients_max = 256;
constexpr int patience_max_s = 3'600;

template <typename Number>
Number parse_number(std::string_view flag, std::string_view text, Number low, Number high)
{
    Number value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
        throw usage_error(fmt::format("{} needs a whole number from {} to {}, not '{}'", flag, low, high, text));
    return value;
}

/// Small enough to be typed again.
std::uint64_t draw_seed()
{
    return std::random_device{}() % 1'000'000;
}

void apply(options& chosen, std::string_view flag, std::string_view value)
{
    if (flag == "--orders") chosen.orders = parse_number(flag, value, 1, orders_max);
    else if (flag == "--clients") chosen.clients = parse_number(flag, value, 1, clients_max);
    else if (flag == "--seed")
        chosen.seed = parse_number(flag, value, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
    else if (flag == "--patience") chosen.patience = std::chrono::seconds{parse_number(flag, value, 1, patience_max_s)};
    else if (flag == "--services") chosen.services = value;
    else if (flag == "--logs") chosen.logs = value;
    else if (flag == "--payments") chosen.payments = value;
    else if (flag == "--shipping") chosen.shipping = value;
    else if (flag == "--gateway") chosen.gateway = value;
    else if (flag == "--transport") {
        if (value != "rabbitmq" && value != "kafka" && value != "postgres")
            throw usage_error(fmt::format("--transport is rabbitmq, kafka or postgres, not '{}'", value));
#ifndef ORDER_SAGA_OVER_KAFKA
        if (value == "kafka") throw usage_error("--transport kafka: this was built without librdkafka");
#endif
        chosen.transport = value;
    }
    else if (flag == "--json") chosen.json = value;
    else throw usage_error(fmt::format("unknown argument '{}'; --help lists what there is", flag));
}

}  // namespace

char const usage_text[] = R"(usage: order_demo --services DIR --logs DIR [options]

Runs the order saga over three service processes, disturbs it as much as it can, and judges the outcome by SQL.
scripts/demo.sh builds what this needs, starts a private PostgreSQL and RabbitMQ, and runs it.

  --services DIR   the folder of order_service, payment_service and shipping_service
  --logs DIR       the folder for the services' logs
  --orders N       how many orders (default 1000)
  --clients N      how many clients order at the same time (default 16)
  --seed N         makes the same orders, duplicates and kills again (default: random, printed)
  --patience S     give up when nothing at all has happened for S seconds (default 180)
  --payments FILE  the program of that service, if it is not payment_service
  --shipping FILE  likewise
  --gateway FILE   the program `gateway`: it charges, and misbehaves now and then
  --transport T    how messages travel: rabbitmq (default), kafka, or postgres, without a broker
  --json FILE      also write the figures to FILE
  --help           this text

environment: DATABASE_URL_ORDERS, DATABASE_URL_PAYMENTS, DATABASE_URL_SHIPPING, AMQP_URL, as printed by
scripts/stack.sh up DIR, or SKALD_KAFKA_BROKERS, by scripts/kafka.sh up DIR; NO_COLOR for a display without colours.

exit code: 0 if every order ended as it should, 1 if anything is wrong, 2 for a wrong command line.
)";

options parse_options(int argument_count, char const* const* arguments)
{
    options chosen;
    chosen.seed = draw_seed();
    for (int i = 1; i < argument_count; ++i) {
        std::string_view flag{arguments[i]};
        std::string_view value;
        if (auto const equals = flag.find('='); equals != std::string_view::npos) {
            value = flag.substr(equals + 1);
            flag = flag.substr(0, equals);
        }
        else if (i + 1 < argument_count) {
            value = arguments[++i];
        }
        apply(chosen, flag, value);
    }
    if (chosen.services.empty() || chosen.logs.empty())
        throw usage_error("--services DIR and --logs DIR are both needed");
    chosen.servers = addresses_from_environment("scripts/demo.sh", broker_named(chosen.transport));
    return chosen;
}

}  // namespace order_demo
