// F2, G10: a connection that is lost while COMMIT is under way. Nobody on this side knows; the guard finds out.
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "support/doubtful_store.hpp"
#include "support/settle.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;

namespace {

void charge_in_doubt(test::doubtful_store::loses loss)
{
    test::stepped_shop s;
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").settle_one();
    s.at("orders").relay_due();
    auto const charge = test::simulation::delivery_of(s.last_sent("charge-payment"));

    runtime::registry steps;
    steps.add("place-order", "charge-payment",
              {std::make_unique<detail::typed_step<order_saga::order, order_saga::charge_payment>>(
                   order_saga::charge_payment{}),
               {},
               step_kind::compensatable,
               1});
    runtime::memory_source out;
    core::silent_logger log;
    test::doubtful_store store{s.at("payments").db.url()};
    runtime::executor executor{"payments", store, out, log, std::mt19937_64{1}};

    store.next = loss;
    CHECK_THROWS_AS(test::settle(executor, "payments", steps, charge), ports::fault);
    test::settle(executor, "payments", steps, charge);
    CHECK(s.at("payments").db.rows("SELECT kind, count(*) FROM charge GROUP BY 1") == "charge|1");
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox WHERE type = 'arrange-shipping'") == "1");
    s.run();
    CHECK(s.saga_status("1") == "completed");
}

}  // namespace

TEST_CASE("a step that committed though its answer was lost does not run again")
{
    charge_in_doubt(test::doubtful_store::loses::the_answer);
}

TEST_CASE("a step that did not commit though nobody knows runs again")
{
    charge_in_doubt(test::doubtful_store::loses::the_commit);
}
