// What an operator is told to do with Kafka's own tools: lines that work as they are printed.
#pragma once

#include <string>

namespace skald::kafka_detail {

/// `tool`: kafka-topics.sh and the like. `brokers`: as in SKALD_KAFKA_BROKERS.
inline std::string tool_command(std::string const& tool, std::string const& brokers, std::string const& rest)
{
    return tool + " --bootstrap-server " + brokers + ' ' + rest;
}

/// Of a service's group.
inline std::string group_command(std::string const& brokers, std::string const& service, std::string const& rest)
{
    return tool_command("kafka-consumer-groups.sh", brokers, "--group skald." + service + ' ' + rest);
}

/// What else they need, on a cluster that asks who one is.
inline constexpr char const* with_tls_or_sasl = "with TLS or SASL, add `--command-config FILE`";

/// Where the group of the service is `database`'s, and this process has another.
inline std::string belongs_to_another(std::string const& service, std::string const& database)
{
    return "the service `" + service + "` belongs to another database (" + database + ") in this Kafka";
}

/// Kafka's tool commits numbers and nothing beside them, and so says of no database that they are its.
inline std::string remedy_of_another(std::string const& brokers, std::string const& service)
{
    return "correct DATABASE_URL; or, if this database is to have the messages from now on, stop all processes of the "
           "service, and: " +
           group_command(brokers, service, "--all-topics --reset-offsets --to-current --execute") +
           "; never delete the group: what is in its topics, up to SKALD_RETENTION_DAYS, would run again "
           "(docs/kafka.md, \"A new database for an old group\"; " +
           with_tls_or_sasl + ")";
}

}  // namespace skald::kafka_detail
