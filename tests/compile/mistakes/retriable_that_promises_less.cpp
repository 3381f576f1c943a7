// A retriable step that returns the outcome of other steps could reject.
// expected: return type
#include <skald/step.hpp>

struct order
{};

struct ship final : skald::retriable_step<order>
{
#ifdef MISTAKE
    skald::outcome execute(skald::step_context&, order&) const override
    {
        return skald::done();
    }
#else
    skald::forward_outcome execute(skald::step_context&, order&) const override
    {
        return skald::done();
    }
#endif
};
