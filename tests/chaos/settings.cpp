#include "settings.hpp"

#include "faults.hpp"

#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

namespace order_storm {
namespace {

using skald::rig::usage_error;

double parse_number(std::string_view flag, std::string const& text, double low, double high)
{
    char* end = nullptr;
    double const value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(value) || value < low || value > high)
        throw usage_error(fmt::format("{} needs a number from {} to {}, not '{}'", flag, low, high, text));
    return value;
}

void apply(settings& chosen, std::string_view flag, std::string const& value)
{
    if (flag == "--minutes") chosen.minutes = parse_number(flag, value, 0.1, 24 * 60);
    else if (flag == "--rate") chosen.orders_per_second = parse_number(flag, value, 0.1, 1'000);
    else if (flag == "--clients") chosen.clients = static_cast<int>(parse_number(flag, value, 1, 256));
    else if (flag == "--seed") chosen.seed = static_cast<std::uint64_t>(parse_number(flag, value, 0, 1e15));
    else if (flag == "--calm")
        chosen.calm_max = std::chrono::seconds{static_cast<int>(parse_number(flag, value, 1, 3'600))};
    else if (flag == "--transport") {
        if (value != "rabbitmq" && value != "kafka" && value != "postgres")
            throw usage_error(fmt::format("--transport is rabbitmq, kafka or postgres, not '{}'", value));
        chosen.transport = value;
    }
    else if (flag == "--only") chosen.only = value;
    else if (flag == "--services") chosen.services = value;
    else if (flag == "--logs") chosen.logs = value;
    else if (flag == "--json") chosen.json = value;
    else if (flag == "--stack-script") chosen.stack_script = value;
    else if (flag == "--stack") chosen.stack = value;
    else if (flag == "--cluster-script") chosen.cluster_script = value;
    else if (flag == "--cluster") chosen.cluster = value;
    else if (flag == "--gateway") chosen.gateway = value;
    else if (flag == "--commit") chosen.commit = value;
    else throw usage_error(fmt::format("unknown argument '{}'; --help lists what there is", flag));
}

std::vector<int> ports_of_kafka()
{
    char const* const text = std::getenv("KAFKA_TEST_PORTS");
    if (text == nullptr) throw usage_error{"KAFKA_TEST_PORTS is not set: scripts/kafka.sh up DIR prints it"};
    std::vector<int> ports;
    std::istringstream all{text};
    for (std::string one; std::getline(all, one, ',');) ports.push_back(std::stoi(one));
    return ports;
}

}  // namespace

char const usage_text[] = R"(usage: order_storm --services DIR --logs DIR --stack-script FILE --stack DIR [options]

Runs the order saga under load while everything around it breaks at random, then lets it come to rest and judges the
outcome by SQL. scripts/chaos.sh builds what this needs, starts a private PostgreSQL and RabbitMQ, and runs it.

  --services DIR        the folder of order_service, payment_service and shipping_service
  --logs DIR            the folder for the services' logs
  --stack-script FILE   scripts/stack.sh, to kill and start the servers with
  --stack DIR           the stack that it started
  --cluster-script FILE scripts/broker_cluster.sh, where AMQP_URL is one of its clusters: then single nodes fail;
                        or scripts/kafka.sh
  --cluster DIR         its folder
  --minutes N           how long the storm lasts (default 1)
  --seed N              the same orders and the same sequence of faults again (default: random, printed)
  --rate N              orders per second (default 20)
  --clients N           how many clients order at the same time (default 16)
  --calm S              how many seconds may pass afterwards in which no saga ends, until all have (default 120)
  --transport T         how messages travel: rabbitmq (default), kafka, or postgres, where nothing befalls a broker
  --only KIND           only faults of that kind
  --gateway FILE        the program `gateway`: it charges, and misbehaves now and then
  --json FILE           also write the figures to FILE
  --commit TEXT         what is tested, for the report
  --help                this text

environment: DATABASE_URL, DATABASE_URL_ORDERS, DATABASE_URL_PAYMENTS, DATABASE_URL_SHIPPING, AMQP_URL,
or KAFKA_TEST_PORTS as scripts/kafka.sh prints it

exit code: 0 if every order ended as it should, 1 if anything is wrong, 2 for a wrong command line.
)";

settings parse_settings(int argument_count, char const* const* arguments)
{
    settings chosen;
    chosen.seed = std::random_device{}() % 1'000'000;
    for (int i = 1; i < argument_count; i += 2) {
        if (i + 1 == argument_count) throw usage_error(fmt::format("{} needs a value", arguments[i]));
        apply(chosen, arguments[i], arguments[i + 1]);
    }
    if (chosen.services.empty() || chosen.logs.empty() || chosen.stack_script.empty() || chosen.stack.empty())
        throw usage_error("--services, --logs, --stack-script and --stack are all needed");
    if (auto const only = kind_named(chosen.only); only && !is_possible(*only, chosen.transport))
        throw usage_error("over " + chosen.transport + " there is no " + chosen.only);
    chosen.shop =
        skald::rig::addresses_from_environment("scripts/chaos.sh", skald::rig::broker_named(chosen.transport));
    if (chosen.transport == "kafka") chosen.kafka_ports = ports_of_kafka();
    return chosen;
}

}  // namespace order_storm
