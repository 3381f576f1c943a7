// The service `orders`: takes orders over HTTP, and is the home of their sagas.
#include "order_entry.hpp"
#include "order_tables.hpp"

int main(int argc, char** argv)
{
    using namespace order_saga;
    return skald::run_service("orders", argc, argv, [](skald::worker& worker) {
        worker
            .migrate("0001_orders", tables::orders)
            // All clients that send none are one tenant here, for the README's curl; your service should require it.
            .scope(skald::http::scope_from_header("X-Scope", skald::http::scope_header::optional))
            .post("/orders", place)
            .host(place_order, steps::create_order, create_order{})
            .host(place_order, steps::confirm_order, confirm_order{});
    });
}
