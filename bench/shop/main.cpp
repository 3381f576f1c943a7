// skald-bench-service: one of the three services, by the shipped worker. Its settings are a worker's, with their defaults.
#include "bench_shop_tables.hpp"
#include "shop.hpp"

#include <cstdio>
#include <string_view>

int main(int argc, char** argv)
{
    using namespace bench_shop;
    std::string_view const service = argc > 1 ? argv[1] : "";
    if (service == "orders")
        return skald::run_service("bench-orders", argc - 1, argv + 1, [](skald::worker& worker) {
            worker.migrate("0001_orders", tables::orders)
                .post("/orders", place)
                .host(place_order, steps::create_order, create_order{});
        });
    if (service == "payments")
        return skald::run_service("bench-payments", argc - 1, argv + 1, [](skald::worker& worker) {
            worker.migrate("0001_payments", tables::payments)
                .host(place_order, steps::charge_payment, charge_payment{});
        });
    if (service == "shipping")
        return skald::run_service("bench-shipping", argc - 1, argv + 1, [](skald::worker& worker) {
            worker.migrate("0001_shipping", tables::shipping)
                .host(place_order, steps::arrange_shipping, arrange_shipping{});
        });
    std::fputs("usage: skald-bench-service orders|payments|shipping [settings of a worker; --help lists them]\n",
               stderr);
    return service == "--help" ? 0 : 2;
}
