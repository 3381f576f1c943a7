// F2, G10: a connection that is lost while COMMIT is under way. Nobody on this side knows; the guard finds out.
#include "support/kit_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;

namespace {

/// `runs`: of the step's code.
void charge_once(testing::crash_point loss, std::size_t runs)
{
    test::kit_shop s;
    s.order("1");
    s.kit().crash_at(loss, "charge-payment");
    s.kit().deliver_all();
    CHECK(s.kit().ran("charge-payment", runs));
    CHECK(s.kit().applied_once("1", "charge-payment"));
    CHECK(s.kit().was_sent("arrange-shipping"));
    CHECK(s.kit().saga_is("1", "completed"));
    CHECK(s.effects() == test::completed);
}

}  // namespace

TEST_CASE("a step that committed though its answer was lost does not run again")
{
    charge_once(testing::crash_point::answer_lost, 1);
}

TEST_CASE("a step that did not commit though nobody knows runs again")
{
    charge_once(testing::crash_point::commit_lost, 2);
}
