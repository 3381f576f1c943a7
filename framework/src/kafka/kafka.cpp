#include <skald/kafka.hpp>

#include "kafka/kafka_publisher.hpp"
#include "kafka/kafka_transport.hpp"
#include "kafka/relied_on.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <string_view>

namespace skald {
namespace {

std::string trimmed(std::string const& text)
{
    constexpr char const* blanks = " \t\r";
    auto const first = text.find_first_not_of(blanks);
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// `HOST:PORT`, or with a protocol of librdkafka's before it. librdkafka would try what is none for ever.
bool is_broker(std::string_view one)
{
    if (auto const scheme = one.find("://"); scheme != std::string_view::npos) {
        std::string protocol{one.substr(0, scheme)};
        std::ranges::transform(protocol, protocol.begin(), [](unsigned char c) { return std::tolower(c); });
        if (protocol != "plaintext" && protocol != "ssl" && protocol != "sasl_plaintext" && protocol != "sasl_ssl")
            return false;
        one.remove_prefix(scheme + 3);
    }
    auto const colon = one.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    auto const host = one.substr(0, colon), text = one.substr(colon + 1);
    if (host.find_first_of("/@ \t") != std::string_view::npos) return false;
    int port{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65'535;
}

void check_brokers(std::string_view all)
{
    for (int number = 1; !all.empty(); ++number) {
        auto const one = all.substr(0, all.find(','));
        if (!is_broker(one))  // and is not repeated: there may be a password in it
            throw configuration_error{"SKALD_KAFKA_BROKERS: number " + std::to_string(number) + " is not HOST:PORT"};
        all.remove_prefix(std::min(one.size() + 1, all.size()));
    }
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
        auto name = trimmed(line.substr(0, at));
        if (kafka_detail::is_relied_on(name))
            throw configuration_error{"SKALD_KAFKA_PROPERTIES: line " + std::to_string(number) + " of " + path + ": " +
                                      name + " is what Skald relies on, and can't be set"};
        all.emplace_back(std::move(name), trimmed(line.substr(at + 1)));
    }
    if (!file.eof()) throw configuration_error{"SKALD_KAFKA_PROPERTIES: " + path + " can't be read"};
    return all;
}

std::unique_ptr<ports::transport> make_kafka(std::string const& name, config const& settings, logger& log)
{
    auto options = kafka_detail::read_options(name, settings);
    if (!options.properties.empty()) kafka_detail::check_publisher(kafka_detail::connection_properties(options));
    return std::make_unique<kafka_detail::kafka_transport>(std::move(options), log);
}

}  // namespace

kafka_detail::options kafka_detail::read_options(std::string name, config const& settings)
{
    if (settings.kafka_brokers.empty())
        throw configuration_error{"SKALD_TRANSPORT=kafka needs SKALD_KAFKA_BROKERS, such as 127.0.0.1:9092"};
    check_brokers(settings.kafka_brokers);
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
