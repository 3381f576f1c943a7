// Kafka keeps what every transport must.
#include "transport_kafka_fixture.hpp"

TYPE_TO_STRING(skald::test::kafka_fixture);

namespace skald::test {
SKALD_TRANSPORT_CLAIMS(kafka_fixture);
}
