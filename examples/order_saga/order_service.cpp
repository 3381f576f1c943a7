// The service `orders`.
#include "services.hpp"

int main(int argc, char** argv)
{
    return skald::run_service(order_saga::orders, argc, argv);
}
