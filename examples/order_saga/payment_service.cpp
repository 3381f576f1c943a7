// The service `payments`. With `--gateway HOST:PORT` a payment provider charges, as tools/gateway; without, wallets.
#include "gateway_payment.hpp"
#include "services.hpp"

int main(int argc, char** argv)
{
    std::string gateway;
    auto const make = [&] {
        return gateway.empty() ? order_saga::payments()
                               : order_saga::payments_by(order_saga::parse_gateway_address(gateway));
    };
    return skald::run_service(make, argc, argv, {{"--gateway", &gateway, "HOST:PORT of a provider that charges"}});
}
