// The service `shipping`: takes what was ordered from stock.
#include "order_tables.hpp"
#include "shipping_steps.hpp"

int main(int argc, char** argv)
{
    using namespace order_saga;
    return skald::run_service("shipping", argc, argv, [](skald::worker& worker) {
        worker.migrate("0001_shipping", tables::shipping)
            .host(place_order, steps::arrange_shipping, arrange_shipping{});
    });
}
