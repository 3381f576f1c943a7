// What becomes of a record of Kafka: Skald's own, others', and those that nobody here can read.
#include "transport_kafka_fixture.hpp"

using namespace skald::test;
namespace ports = skald::ports;

TEST_CASE("a record that Skald has not written comes with its problem, and its partition goes on")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const subscription = f.transport().subscribe({service, 10});
    f.write("skald." + service, "key", {{"x", "y"}}, "\xff\x00");
    f.write("skald." + service, "", {}, "");
    CHECK(all_confirmed(publish(*f.transport().open_publisher(), batch({message_for(service)}))));
    auto const all = collect(*subscription, 3);
    REQUIRE(all.size() == 3);
    for (int i : {0, 1}) {
        CHECK(all[static_cast<std::size_t>(i)].problem.find("Skald has not written this record") != std::string::npos);
        CHECK(all[static_cast<std::size_t>(i)].message.destination == service);
    }
    CHECK(all[0].message.headers == skald::core::header_list{{"x", "y"}});
    CHECK(all[2].problem == "");
    ack_all(*subscription, all);
}

TEST_CASE("a topic of others comes to the handlers that are bound to it, with the record's key as a header")
{
    kafka_fixture f;
    auto const service = f.service(), theirs = "theirs-" + service;
    f.make_topic(theirs);
    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = theirs}}}, {"audit", 10, {{"#", theirs}}}};
    auto const subscription = f.transport().subscribe(who);
    f.write(theirs, "order-7",
            {{"content-type", "application/json"},
             {"ce_id", "e1"},
             {"skald-message-key", "x"},
             {"x-death", "x"},
             {"CC", "x"},
             {"skald-exchange", "x"}},
            "{}");
    auto const all = collect(*subscription, 2);
    REQUIRE(all.size() == 2);
    std::set<std::string> handlers;
    for (auto const& one : all) {
        handlers.insert(one.handler);
        CHECK(one.message.destination == service + ".on." + one.handler);
        CHECK(one.message.content_type == "application/json");
        CHECK(one.message.body == "{}");
        CHECK(one.message.headers == skald::core::header_list{{"cloudEvents:id", "e1"}, {"kafka-key", "order-7"}});
    }
    CHECK(handlers == std::set<std::string>{"entered", "audit"});
    // Of two copies, only both together are the record.
    subscription->ack(all[0].tag);
    ack_all(*subscription, all);
    CHECK(nothing_comes(*subscription));
}

TEST_CASE("what would act if it were sent again is dropped from what came to a service's own topic")
{
    kafka_fixture f;
    auto const service = f.service(), topic = "skald." + service;
    auto const subscription = f.transport().subscribe({service, 10});
    skald::core::header_list const not_ours{{"x-death", "x"}, {"skald-exchange", "x"}, {"left", "y"}};
    skald::core::header_list ours{
        {"skald.destination", service}, {"skald.id", "m"}, {"skald.type", "t"}, {"skald.content-type", "c"}};
    ours.insert(ours.end(), not_ours.begin(), not_ours.end());
    f.write(topic, "", ours, "{}");
    f.write(topic, "", not_ours, "{}");
    auto const all = collect(*subscription, 2);
    REQUIRE(all.size() == 2);
    CHECK(all[0].problem == "");
    CHECK(all[0].message.id == "m");
    for (auto const& one : all) CHECK(one.message.headers == skald::core::header_list{{"left", "y"}});
}
