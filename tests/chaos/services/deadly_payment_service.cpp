// The service `payments` of the order example, which the orders of some customers kill: three times in four, in every
// process that takes them.
#include "examples/order_saga/payment_steps.hpp"
#include "examples/order_saga/with_kafka.hpp"
#include "order_tables.hpp"
#include "tests/support/charge_with.hpp"

#include <csignal>
#include <string>
#include <utility>

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

skald::service payments(std::string const& at)
{
    skald::service payments{"payments"};
    payments.migrate("0001_payments", tables::payments).migrate("0002_deaths", "CREATE SEQUENCE deaths");
    if (at.empty()) {
        payments.host(place_order, steps::charge_payment, deadly_charge{});
        return payments;
    }
    gateway_client const gateway{parse_gateway_address(at)};
    charge_with charge{gateway};
    charge.before_prepare = may_die;
    payments.dependency("gateway").host(place_order, steps::charge_payment, std::move(charge),
                                        refund_by_gateway{gateway}, {.call = {.dependency = "gateway"}});
    return payments;
}

}  // namespace

int main(int argc, char** argv)
{
    std::string gateway;
    return skald::run_service([&] { return with_kafka(payments(gateway)); }, argc, argv,
                              {{"--gateway", &gateway, "HOST:PORT of a provider that charges"}});
}
