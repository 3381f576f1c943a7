// A step works on the data of its saga.
// expected: the class works on another data type
#include "order.hpp"

struct parcel
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id)

#ifdef MISTAKE
using data = parcel;
#else
using data = order;
#endif

struct ship final : skald::retriable_step<data>
{
    skald::forward_outcome execute(skald::step_context&, data&) const override { return skald::done(); }
};

void set_up(skald::service& service)
{
    service.host(place_order, steps::ship, ship{});
}
