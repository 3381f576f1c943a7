// expected: no such mutant: core/failpoint.hpp lists them all
#include "../../../framework/src/core/failpoint.hpp"

void publish([[maybe_unused]] int mandatory)
{
#ifdef MISTAKE
    SKALD_MUTANT("no_mandate", mandatory = 0);
#else
    SKALD_MUTANT("no_mandatory", mandatory = 0);
#endif
}
