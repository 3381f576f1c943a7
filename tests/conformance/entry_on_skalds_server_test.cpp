// The entry behind the server that comes with Skald.
#include "entry_conformance.hpp"

using skald::test::skalds_server;

TYPE_TO_STRING(skalds_server);

namespace skald::test {
SKALD_ENTRY_CLAIMS(skalds_server);
}
