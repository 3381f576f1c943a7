// expected: no such mutant: core/failpoint.hpp lists them all
#include "../../../framework/src/core/failpoint.hpp"

bool is_faulty()
{
#ifdef MISTAKE
    return SKALD_MUTANT("no_mandate");
#else
    return SKALD_MUTANT("no_mandatory");
#endif
}
