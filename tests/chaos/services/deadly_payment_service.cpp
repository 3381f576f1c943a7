// The service `payments` of the order example, which the orders of some customers kill: three times in four, in every
// process that takes them.
#include "examples/order_saga/payment_steps.hpp"
#include "order_tables.hpp"
#include "tests/support/charge_with.hpp"

#include <csignal>
#include <utility>
#include <vector>

namespace {

using namespace order_saga;

void may_die(skald::step_context& ctx, order const& o)
{
    // A sequence is not rolled back.
    if (o.customer.starts_with("deadly-") && ctx.sql("SELECT nextval('deaths')")[0][0].as<long>() % 4 != 0)
        std::raise(SIGKILL);
}

class deadly_charge final : public skald::compensatable_step<order>, public skald::batch_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        may_die(ctx, o);
        return one().execute(ctx, o);
    }

    skald::batch_outcome execute_batch(skald::batch<order>& all) const override
    {
        for (auto const& each : all)
            if (each.data.customer.starts_with("deadly-")) return skald::one_by_one();
        return together().execute_batch(all);
    }

    void compensate(skald::step_context& ctx, order& o) const override { one().compensate(ctx, o); }

    static skald::compensatable_step<order> const& one()
    {
        static charge_payment const genuine;
        return genuine;
    }
    static skald::batch_step<order> const& together()
    {
        static charge_payment const genuine;
        return genuine;
    }
};

}  // namespace

// With `--gateway HOST:PORT` the gateway there charges.
int main(int argc, char** argv)
{
    std::vector<char const*> arguments{argv, argv + argc};
    skald::service payments{"payments"};
    payments.migrate("0001_payments", tables::payments).migrate("0002_deaths", "CREATE SEQUENCE deaths");
    if (auto const at = take_gateway(arguments)) {
        gateway_client const gateway{*at};
        charge_with charge{gateway};
        charge.before_prepare = may_die;
        payments.dependency("gateway").host(place_order, steps::charge_payment, std::move(charge),
                                            refund_by_gateway{gateway}, {.call = {.dependency = "gateway"}});
    }
    else {
        payments.host(place_order, steps::charge_payment, deadly_charge{});
    }
    return skald::run_service(std::move(payments), static_cast<int>(arguments.size()), arguments.data());
}
