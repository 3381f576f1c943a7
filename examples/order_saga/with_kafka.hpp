// Lets SKALD_TRANSPORT=kafka work, where a program is built with librdkafka.
#pragma once

#include <skald/service.hpp>

#ifdef ORDER_SAGA_OVER_KAFKA
#include <skald/kafka.hpp>
#endif

#include <utility>

namespace order_saga {

inline skald::service with_kafka(skald::service s)
{
#ifdef ORDER_SAGA_OVER_KAFKA
    s.transport(skald::kafka());
#endif
    return s;
}

}  // namespace order_saga
