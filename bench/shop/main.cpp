// skald-bench-service: one of the three services, run by the shipped worker. It has a worker's settings, with their
// defaults.
#include "bench_shop_tables.hpp"
#include "shop.hpp"
#include "waiting.hpp"

#ifdef BENCH_OVER_KAFKA
#include <skald/kafka.hpp>
#endif
#include <skald/redis.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace {

using namespace bench_shop;

// With `each`, one business statement for each delivery; without it, one for a batch.
skald::service orders(bool each)
{
    skald::service s{"bench-orders"};
    s.migrate("0001_orders", tables::orders).post("/orders", place).post("/rows", insert_row);
    s.post("/guarded", leave_effect).front(skald::redis());
    s.route("POST", "/repeatable", skald::http::idempotency::may_repeat, leave_effect);
    if (each) s.host(place_order, steps::create_order, create_order{});
    else s.host(place_order, steps::create_order, create_orders{});
    return s;
}

skald::service payments(bool each)
{
    skald::service s{"bench-payments"};
    s.migrate("0001_payments", tables::payments);
    s.on<order>("payment-due", charge_due_payment, {.key = skald::message_key::members({"/id"})});
    if (each) s.host(place_order, steps::charge_payment, charge_payment{});
    else s.host(place_order, steps::charge_payment, charge_payments{});
    return s;
}

skald::service shipping(bool each)
{
    skald::service s{"bench-shipping"};
    s.migrate("0001_shipping", tables::shipping);
    if (each) s.host(place_order, steps::arrange_shipping, arrange_shipping{});
    else s.host(place_order, steps::arrange_shipping, arrange_shippings{});
    return s;
}

skald::service waiting()
{
    char const* const lease = std::getenv("BENCH_LEASE");
    return bench_waiting::waiting(tables::waiting, std::chrono::seconds{lease != nullptr ? std::atoi(lease) : 15});
}

}  // namespace

int main(int argc, char** argv)
{
    std::string_view const service = argc > 1 ? argv[1] : "";
    bool const each = argc > 2 && std::string_view{argv[2]} == "--each";
    int const skipped = each ? 2 : 1;
    auto const run = [&](skald::service what) {
#ifdef BENCH_OVER_KAFKA
        what.transport(skald::kafka());
#endif
        return skald::run_service(std::move(what), argc - skipped, argv + skipped);
    };
    if (service == "orders") return run(orders(each));
    if (service == "payments") return run(payments(each));
    if (service == "shipping") return run(shipping(each));
    if (service == "waiting") return run(waiting());
    std::fputs("usage: skald-bench-service orders|payments|shipping|waiting [--each] [settings of a worker; --help "
               "lists them]\n",
               stderr);
    return service == "--help" ? 0 : 2;
}
