// skald-bench-service: one of the three services, run by the shipped worker. It has a worker's settings, with their
// defaults.
#include "bench_shop_tables.hpp"
#include "shop.hpp"

#include <cstdio>
#include <string_view>

namespace {

using namespace bench_shop;

// With `each`, one business statement for each delivery; without it, one for a batch.
void set_up_orders(skald::worker& worker, bool each)
{
    worker.migrate("0001_orders", tables::orders).post("/orders", place).post("/rows", insert_row);
    if (each) worker.host(place_order, steps::create_order, create_order{});
    else worker.host(place_order, steps::create_order, create_orders{});
}

void set_up_payments(skald::worker& worker, bool each)
{
    worker.migrate("0001_payments", tables::payments);
    if (each) worker.host(place_order, steps::charge_payment, charge_payment{});
    else worker.host(place_order, steps::charge_payment, charge_payments{});
}

void set_up_shipping(skald::worker& worker, bool each)
{
    worker.migrate("0001_shipping", tables::shipping);
    if (each) worker.host(place_order, steps::arrange_shipping, arrange_shipping{});
    else worker.host(place_order, steps::arrange_shipping, arrange_shippings{});
}

}  // namespace

int main(int argc, char** argv)
{
    std::string_view const service = argc > 1 ? argv[1] : "";
    bool const each = argc > 2 && std::string_view{argv[2]} == "--each";
    auto const run = [&](char const* name, void (*set_up)(skald::worker&, bool)) {
        int const skipped = each ? 2 : 1;
        return skald::run_service(name, argc - skipped, argv + skipped,
                                  [&](skald::worker& worker) { set_up(worker, each); });
    };
    if (service == "orders") return run("bench-orders", set_up_orders);
    if (service == "payments") return run("bench-payments", set_up_payments);
    if (service == "shipping") return run("bench-shipping", set_up_shipping);
    std::fputs(
        "usage: skald-bench-service orders|payments|shipping [--each] [settings of a worker; --help lists them]\n",
        stderr);
    return service == "--help" ? 0 : 2;
}
