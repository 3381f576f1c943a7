#include <skald/kafka.hpp>

#include "kafka/kafka_transport.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <fstream>

namespace skald {
namespace {

std::string trimmed(std::string const& text)
{
    constexpr char const* blanks = " \t\r";
    auto const first = text.find_first_not_of(blanks);
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Lines `name=value`, and comments after a `#` at their beginning: what librdkafka's own tools read.
kafka_detail::property_list read_properties(std::string const& path)
{
    std::ifstream file{path};
    kafka_detail::property_list all;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        line = trimmed(line);
        if (line.empty() || line.front() == '#') continue;
        auto const at = line.find('=');
        if (at == std::string::npos)
            throw configuration_error{"SKALD_KAFKA_PROPERTIES: line " + std::to_string(number) + " of " + path +
                                      " is no `name=value`"};
        all.emplace_back(trimmed(line.substr(0, at)), trimmed(line.substr(at + 1)));
    }
    if (!file.eof()) throw configuration_error{"SKALD_KAFKA_PROPERTIES: " + path + " can't be read"};
    return all;
}

std::unique_ptr<ports::transport> make_kafka(std::string const& name, config const& settings, logger& log)
{
    return std::make_unique<kafka_detail::kafka_transport>(kafka_detail::read_options(name, settings), log);
}

}  // namespace

kafka_detail::options kafka_detail::read_options(std::string name, config const& settings)
{
    if (settings.kafka_brokers.empty())
        throw configuration_error{"SKALD_TRANSPORT=kafka needs SKALD_KAFKA_BROKERS, such as 127.0.0.1:9092"};
    options made;
    made.name = std::move(name);
    made.brokers = settings.kafka_brokers;
    if (!settings.kafka_properties.empty()) made.properties = read_properties(settings.kafka_properties);
    made.shape = {settings.kafka_partitions, settings.kafka_replicas, settings.kafka_min_insync};
    made.declares = settings.declare;
    made.guarded = std::chrono::days{settings.retention_days};
    return made;
}

detail::transport_maker kafka()
{
    return make_kafka;
}

}  // namespace skald
