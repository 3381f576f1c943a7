// PostgreSQL alone keeps what every transport must.
#include "transport_inbox_fixture.hpp"

TYPE_TO_STRING(skald::test::inbox_fixture);

namespace skald::test {
SKALD_TRANSPORT_CLAIMS(inbox_fixture);
}
