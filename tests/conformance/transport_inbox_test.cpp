// PostgreSQL alone keeps what every transport must.
#include "transport_inbox_fixture.hpp"
#include "transport_slow_start.hpp"

TYPE_TO_STRING(skald::test::inbox_fixture);

namespace skald::test {
SKALD_TRANSPORT_CLAIMS(inbox_fixture);
TEST_CASE_TEMPLATE_INVOKE(transport_slow_start, inbox_fixture);
}  // namespace skald::test
