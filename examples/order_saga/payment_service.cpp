// The service `payments`: charges and refunds wallets.
#include "order_tables.hpp"
#include "payment_steps.hpp"

int main(int argc, char** argv)
{
    using namespace order_saga;
    return skald::run_service("payments", argc, argv, [](skald::worker& worker) {
        worker.migrate("0001_payments", tables::payments).host(place_order, steps::charge_payment, charge_payment{});
    });
}
