// RabbitMQ's transport keeps what every transport must. Needs AMQP_URL.
#include "transport_conformance.hpp"
#include "transport_rabbitmq_fixture.hpp"
#include "transport_slow_start.hpp"

TYPE_TO_STRING(skald::test::rabbitmq_fixture);

namespace skald::test {
SKALD_TRANSPORT_CLAIMS(rabbitmq_fixture);
TEST_CASE_TEMPLATE_INVOKE(transport_slow_start, rabbitmq_fixture);
}  // namespace skald::test
