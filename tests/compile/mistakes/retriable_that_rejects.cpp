// Behind the pivot there is no way back, so there is no reject.
// expected: a retriable step can't reject
#include <skald/step.hpp>

struct order
{};

struct ship final : skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context&, order&) const override
    {
#ifdef MISTAKE
        return skald::reject("no parcel is small enough");
#else
        return skald::done();
#endif
    }
};
