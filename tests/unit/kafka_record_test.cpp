// Topics and keys of Kafka's records.
#include "kafka/record.hpp"

#include <doctest/doctest.h>

namespace kafka = skald::kafka_detail;

TEST_CASE(
    "what is for a service and its handlers goes to one topic, and what is for whoever is bound to one of its own")
{
    CHECK(kafka::topic_of("payments") == "skald.payments");
    CHECK(kafka::topic_of("payments.on.payment-created") == "skald.payments");
    CHECK(kafka::topic_of("order.entered") == "skald.order.entered");
}

TEST_CASE("all messages of a saga have the same key, and those of another scope another")
{
    auto const key = [](std::string const& derived, std::string const& scope) {
        skald::core::message m;
        m.headers = {{"x-idempotency-key", derived}, {"x-saga-scope", scope}};
        return kafka::record_key(m);
    };
    CHECK(key("order-1:charge-payment", "") == key("order-1:ship.compensate", ""));
    CHECK(key("order-1:charge-payment", "") != key("order-2:charge-payment", ""));
    CHECK(key("order-1:charge-payment", "") != key("order-1:charge-payment", "tenant"));
    CHECK(key("", "") == "");
    CHECK(kafka::record_key({}) == "");
}

TEST_CASE("a name that no topic can have is said to be none")
{
    CHECK(kafka::why_no_topic("skald.pay_ments-1") == "");
    CHECK(kafka::why_no_topic("skald.an order") != "");
    CHECK(kafka::why_no_topic(std::string(250, 'x')) != "");
}
