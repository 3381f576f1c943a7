// The service `payments`. With `--gateway HOST:PORT` a payment provider charges, as tools/gateway; without, wallets.
#include "gateway_payment.hpp"
#include "services.hpp"

#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

int main(int argc, char** argv)
try {
    if (argc < 2 || argv[1] != std::string_view{"--gateway"})
        return skald::run_service(order_saga::payments(), argc, argv);
    auto const gateway = order_saga::parse_gateway_address(argc > 2 ? argv[2] : "");
    std::vector<char const*> others{argv, argv + argc};
    others.erase(others.begin() + 1, others.begin() + 3);
    return skald::run_service(order_saga::payments_by(gateway), static_cast<int>(others.size()), others.data());
}
catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "payment_service --gateway: %s\n", error.what());
    return 2;
}
