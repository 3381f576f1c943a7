// The service `kiosk`: a second home of the shop's sagas, without a step of its own. Its orders are placed in its
// database, by SQL.
#include "examples/order_saga/with_kafka.hpp"

#include <skald/skald.hpp>

int main(int argc, char** argv)
{
    return skald::run_service(order_saga::with_kafka(skald::service{"kiosk"}), argc, argv);
}
