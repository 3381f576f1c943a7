// expected: no such failpoint: core/failpoint.hpp lists them all
#include "../../../framework/src/core/failpoint.hpp"

void commit()
{
#ifdef MISTAKE
    SKALD_FAILPOINT("step.comitted");
#else
    SKALD_FAILPOINT("step.committed");
#endif
}
