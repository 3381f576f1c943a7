// What the bench needs from Kafka: who consumes, and that nothing is left of an earlier run. Without skald::kafka each
// throws std::runtime_error that says so.
#pragma once

#include <string>
#include <vector>

namespace skald_bench {

/// How many processes consume a service's topic.
int consumers_in_kafka(std::string const& brokers, std::string const& service);

/// Deletes the topics of those services, and waits until they are gone.
void empty_kafka(std::string const& brokers, std::vector<std::string> const& services);

}  // namespace skald_bench
