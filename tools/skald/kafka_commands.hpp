// What the commands ask of Kafka. In a `skald` that was built without librdkafka, each refuses and says so.
#pragma once

#include "doctor.hpp"

#include <skald/config.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::tools {

/// No broker answers, or it refuses.
class kafka_away : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Makes the topics of that service which are missing, as the settings say, and returns the names of all. Throws
/// kafka_away, and configuration_error for settings.
std::vector<std::string> make_kafka_topics(config const& settings, ports::subscriber const& who);

/// How many messages the service has not settled. Throws the same.
std::int64_t waiting_in_kafka(config const& settings, std::string const& service);

/// Why this database is not the one whose service consumes there; empty if it is, or nobody has consumed yet. Throws
/// the same.
std::string foreign_in_kafka(config const& settings, postgres::ownership const& owner);

/// Checks the cluster, the service's topics and its group. Everything that goes wrong is a finding.
void examine_kafka(config const& settings, expected const& at_broker, findings& found);

}  // namespace skald::tools
