// What `skald doctor` says of a topic: whether a message in it can be lost, or can't be sent.
#pragma once

#include "doctor.hpp"

#include "kafka/administration.hpp"

#include <skald/config.hpp>

namespace skald::tools {

/// Compares it with what the settings say, and with what Skald relies on. At least one finding.
void examine_topic(kafka_detail::topic_inspection const& topic, config const& settings, int brokers, findings& found);

}  // namespace skald::tools
