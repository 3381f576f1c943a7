// Topics and keys of Kafka's records.
#include "kafka/handles.hpp"
#include "kafka/offset_text.hpp"
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

TEST_CASE("the text beside an offset ends where it is copied without an end, and is read without it")
{
    auto const list = kafka::make_list();
    auto* const one = rd_kafka_topic_partition_list_add(list.get(), "topic", 0);
    CHECK(kafka::text_beside(*one) == "");
    kafka::write_beside(*one, "a longer one");
    kafka::write_beside(*one, "db;1;;0-1:2");
    kafka::partition_list const copy{rd_kafka_topic_partition_list_copy(list.get())};
    auto const& copied = copy->elems[0];
    REQUIRE(copied.metadata_size == 12);
    CHECK(static_cast<char const*>(copied.metadata)[11] == '\0');
    CHECK(kafka::text_beside(copied) == "db;1;;0-1:2");
}
