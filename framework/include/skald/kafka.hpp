// Kafka as the transport of a service: docs/kafka.md. In a library of its own, skald::kafka.
//
//     service.transport(skald::kafka());     // and SKALD_TRANSPORT=kafka SKALD_KAFKA_BROKERS=kafka-1:9092,kafka-2:9092
#pragma once

#include <skald/detail/transport_maker.hpp>

namespace skald {

/// For service::transport(). What it makes is made only where SKALD_TRANSPORT=kafka, and connects while the service
/// runs. Throws: when it is made, configuration_error for brokers that are missing, and for a file of properties that
/// can't be read.
detail::transport_maker kafka();

}  // namespace skald
