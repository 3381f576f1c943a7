// What is said where Kafka's ACLs do not let a user do what it has to (docs/kafka.md, "Rights").
#include "support/kafka_double.hpp"
#include "transport_kafka_fixture.hpp"

#include "kafka/administration.hpp"

using namespace skald::test;
namespace ports = skald::ports;

namespace {

// In Kafka's protocol.
constexpr std::int16_t produce = 0, fetch = 1, offset_commit = 8, find_coordinator = 10, join_group = 11,
                       init_producer_id = 22;
constexpr auto denied_group = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
constexpr auto denied_topic = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
constexpr auto denied_cluster = RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;

struct guarded_kafka : kafka_double
{
    guarded_kafka() : kafka_double{{"skald.payments"}} {}

    kafka::options options() const
    {
        kafka::options made;
        made.brokers = brokers();
        made.shape.partitions = 1;
        made.reconnect = {10ms, 200ms};
        return made;
    }

    void send()
    {
        auto const publisher = transport.open_publisher();
        REQUIRE(publisher->available());
        REQUIRE(all_confirmed(publish(*publisher, batch({message_for("payments")}))));
    }

    recording_logger log;
    kafka::kafka_transport transport{options(), log};
};

// What `ask` throws.
template <class Ask>
std::string why_not(Ask ask)
{
    try {
        ask();
    }
    catch (kafka::kafka_error const& error) {
        return error.what();
    }
    return "it was answered";
}

}  // namespace

TEST_CASE("a process that may not use its group is away and says which right to give, until it has it")
{
    for (auto const request : {join_group, find_coordinator}) {
        guarded_kafka f;
        f.deny(request, denied_group);
        auto const subscription = f.transport.subscribe({"payments", 10});
        CHECK(wait_until([&] { return f.log.has("give this user `Read` on the group skald.payments"); }));
        CHECK_FALSE(subscription->available());
        CHECK(subscription->last_error().find("roup authorization failed") != std::string::npos);
        // It is told so once where it can't even ask who leads the group.
        if (request == join_group) CHECK(wait_until([&] { return f.log.count("broker.lost") > 1; }));
        CHECK_FALSE(subscription->available());
        CHECK_MESSAGE(f.log.count("broker.connected role=consumer") == 1, f.log.lines());
        f.allow(request);
        CHECK(wait_until([&] { return subscription->available(); }));
        CHECK_MESSAGE(f.log.count("broker.connected role=consumer") == 2, f.log.lines());
        f.send();
        CHECK(collect(*subscription, 1).size() == 1);
    }
}

TEST_CASE("a process that may not join its group can be ended")
{
    guarded_kafka f;
    f.deny(join_group, denied_group);
    auto subscription = f.transport.subscribe({"payments", 10});
    CHECK(wait_until([&] { return !subscription->available(); }));
    subscription.reset();
    CHECK(f.log.has("broker.lost role=consumer"));
}

TEST_CASE("a process that may not use its group any more is away, and what it has had comes again")
{
    guarded_kafka f;
    f.deny(join_group, denied_group);
    auto const subscription = f.transport.subscribe({"payments", 10});
    CHECK(wait_until([&] { return !subscription->available(); }));
    f.allow(join_group);
    REQUIRE(wait_until([&] { return subscription->available(); }));  // a member, which nothing tells at a first start
    auto const times = f.log.count("give this user `Read` on the group skald.payments");
    auto const joins = f.log.count("JoinGroup failed");
    f.send();
    auto const taken = collect(*subscription, 1);
    REQUIRE(taken.size() == 1);
    for (auto const request : {offset_commit, join_group}) f.deny(request, denied_group);
    subscription->ack(taken[0].tag);
    CHECK(wait_until([&] { return f.log.count("give this user `Read` on the group skald.payments") > times; }));
    CHECK(wait_until([&] { return f.log.count("JoinGroup failed") > joins; }));
    CHECK_FALSE(subscription->available());
    CHECK_MESSAGE(f.log.count("broker.connected role=consumer") == 2, f.log.lines());
    for (auto const request : {offset_commit, join_group}) f.allow(request);
    CHECK(collect(*subscription, 1).size() == 1);
    CHECK(wait_until([&] { return subscription->available(); }));
}

TEST_CASE("a process that may not read its topic says which right to give, and reads when it has it")
{
    guarded_kafka f;
    f.deny(fetch, denied_topic);
    auto const subscription = f.transport.subscribe({"payments", 10});
    CHECK(wait_until([&] { return f.log.has("give this user `Read` on the topic skald.payments"); }));
    f.allow(fetch);
    f.send();
    CHECK(collect(*subscription, 1).size() == 1);
    CHECK(wait_until([&] { return subscription->available(); }));

    auto const times = f.log.count("give this user `Read`");
    f.deny(fetch, denied_topic);
    CHECK(wait_until([&] { return f.log.count("give this user `Read`") > times; }));  // and so it is when taken again
}

TEST_CASE("a publisher that may write nowhere says which right to give, and is not connected before it has written")
{
    guarded_kafka f;
    f.deny(init_producer_id, denied_cluster);
    auto const publisher = f.transport.open_publisher();
    CHECK(wait_until([&] {
        publisher->available();
        return f.log.count("broker.lost role=publisher") > 2;
    }));
    CHECK(f.log.has("give this user `Write` on the topics that it sends to"));
    CHECK_MESSAGE(f.log.count("broker.connected role=publisher") <= 1, f.log.lines());
    auto const times = f.log.count("broker.connected role=publisher");
    CHECK(wait_until([&] { return publisher->available(); }));
    auto const refused = publish(*publisher, batch({message_for("payments")}));
    CHECK_MESSAGE(refused[0].reason.find("give this user `Write`") != std::string::npos, refused[0].reason);
    f.allow(init_producer_id);
    CHECK(wait_until([&] {
        return publisher->available() && all_confirmed(publish(*publisher, batch({message_for("payments")})));
    }));
    CHECK_MESSAGE(f.log.count("broker.connected role=publisher") == times + 1, f.log.lines());
}

TEST_CASE("a message to a topic that this user may not write to is barred, with the right to give")
{
    guarded_kafka f;
    f.deny(produce, denied_topic);
    auto const publisher = f.transport.open_publisher();
    REQUIRE(publisher->available());
    for (int i = 0; i < 3; ++i) {  // the next ones are not even sent
        auto const receipts = publish(*publisher, batch({message_for("payments")}));
        CHECK(receipts[0].status == ports::publish_status::barred);
        CHECK_MESSAGE(receipts[0].reason.find("give this user `Write` on that topic") != std::string::npos,
                      receipts[0].reason);
    }
}

TEST_CASE("an inspection by who may not describe the group says which right to give")
{
    guarded_kafka f;
    f.deny(find_coordinator, denied_group);
    auto const why = why_not([&] { kafka::inspector{f.options(), {"payments"}}.look(); });
    CHECK_MESSAGE(why.find("roup authorization failed") != std::string::npos, why);
    CHECK_MESSAGE(why.find("`Describe` on the service's topics and on the group skald.payments") != std::string::npos,
                  why);
}

TEST_CASE("why no broker answers is said by the first question, and not only that none does")
{
    kafka::options options;
    options.brokers = "127.0.0.1:1";
    for (auto const& why : {why_not([&] { kafka::provision(options, {"payments"}); }), why_not([&] {
                                kafka::inspector{options, {"payments"}}.look(1ms);
                            })}) {
        CHECK_MESSAGE(why.find("no broker answers at 127.0.0.1:1: ") == 0, why);
        CHECK_MESSAGE(why.ends_with("Connection refused"), why);  // and so is the same each time
    }
    recording_logger log;
    kafka::kafka_transport transport{options, log};
    auto const publisher = transport.open_publisher();
    CHECK_FALSE(publisher->available());
    CHECK_MESSAGE(publisher->last_error().find("Connection refused") != std::string::npos, publisher->last_error());
    auto const subscription = transport.subscribe({"payments", 10});
    CHECK_MESSAGE(subscription->last_error().find("Connection refused") != std::string::npos,
                  subscription->last_error());
}
