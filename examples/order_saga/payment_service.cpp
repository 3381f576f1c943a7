// The service `payments`. With `--gateway HOST:PORT` a payment provider charges, as tools/gateway; without, wallets.
#include "gateway_payment.hpp"
#include "services.hpp"

#include <cstdio>
#include <stdexcept>
#include <vector>

int main(int argc, char** argv)
try {
    std::vector<char const*> arguments{argv, argv + argc};
    auto const gateway = order_saga::take_gateway(arguments);
    return skald::run_service(gateway ? order_saga::payments_by(*gateway) : order_saga::payments(),
                              static_cast<int>(arguments.size()), arguments.data());
}
catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "payment_service: --gateway: %s\n", error.what());
    return 2;
}
