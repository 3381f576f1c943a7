// The service `shipping`.
#include "services.hpp"

int main(int argc, char** argv)
{
    return skald::run_service(order_saga::shipping, argc, argv);
}
