// What an operator, or a broker short of memory, does to the transport.
//
// Needs what transport_rabbitmq_operator.hpp says. An alarm concerns the whole broker, so nothing else may use it
// meanwhile.
#include "rabbitmq/administration.hpp"
#include "transport_rabbitmq_operator.hpp"

using namespace skald::test;

namespace {

/// The broker believes that it has no memory left, until the end of the scope.
class memory_alarm
{
public:
    memory_alarm() { REQUIRE(control("set_vm_memory_high_watermark 0.0000001")); }
    ~memory_alarm() { end(); }
    void end()
    {
        if (std::exchange(on_, false)) control("set_vm_memory_high_watermark 0.4");
    }

private:
    bool on_{true};
};

}  // namespace

TEST_CASE("under a memory alarm publish returns in time, nothing is lost, consuming goes on, and it recovers")
{
    rabbitmq_fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 2});
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 5, "before-"))));

    auto rows = numbered(service, 20, "during-");
    SUBCASE("with small messages, of which a socket takes many") {}
    SUBCASE("with messages so large that a socket takes but a few")
    {
        for (auto& row : rows) row.message.body.assign(2 * 1024 * 1024, 'x');
    }

    memory_alarm alarm;
    for (int i = 0; i < 3; ++i) {
        auto const before = clock::now();
        auto const receipts = publish(*publisher, rows, 1s);
        CHECK(clock::now() - before < 10s);  // on the busiest machine; without a deadline it would be for ever
        for (auto const& one : receipts) {
            CHECK(one.status == publish_status::unresolved);
            CHECK(one.reason != "");
        }
    }
    CHECK_FALSE(publisher->available());
    CHECK(publisher->last_error() != "");
    CHECK(subscription->available());
    CHECK(collect_ids(*subscription, 5).size() == 5);

    alarm.end();
    CHECK(wait_until([&] { return publisher->available(); }));
    CHECK(all_confirmed(publish(*publisher, numbered(service, 1, "after-"))));
}

TEST_CASE("a publisher that is idle learns of an alarm and of its end")
{
    rabbitmq_fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 1});
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(publisher->available());
    memory_alarm alarm;
    // The broker tells a connection when it publishes, not before; and a slow one lets a message through first.
    CHECK(wait_until([&] {
        publish(*publisher, numbered(service, 1), 500ms);
        return !publisher->available();
    }));
    CHECK(publisher->last_error().find("blocked") != std::string::npos);
    CHECK(fixture.log().has("warning test broker.blocked"));
    alarm.end();
    CHECK(wait_until([&] { return publisher->available(); }));
    CHECK(fixture.log().has("info test broker.unblocked"));
    // The connection was kept, so the message that was on its way arrived after all.
    CHECK_FALSE(fixture.log().has("broker.lost role=consumer"));
    CHECK(collect_ids(*subscription, 1) == std::set<std::string>{"m0"});
}

TEST_CASE("connections that the broker closes are made again, and nothing acked comes twice")
{
    private_vhost vhost;
    rabbitmq_fixture fixture{vhost.where()};
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 2))));
    auto const deliveries = collect(*subscription, 2);
    REQUIRE(deliveries.size() == 2);
    subscription->ack(deliveries[0].tag);

    REQUIRE(control("close_all_connections --vhost " + vhost.name() + " maintenance"));
    CHECK(wait_until([&] { return fixture.log().has("CONNECTION_FORCED"); }));
    CHECK(wait_until([&] { return subscription->available(); }));
    subscription->ack(deliveries[1].tag);  // of the connection that was closed
    CHECK(collect_ids(*subscription, 1) == std::set<std::string>{deliveries[1].message.id});

    CHECK(wait_until([&] { return publisher->available(); }));
    CHECK(all_confirmed(publish(*publisher, numbered(service, 1, "after-"))));
    CHECK(collect_ids(*subscription, 1) == std::set<std::string>{"after-0"});
}

TEST_CASE("an exchange that is deleted under a publisher leaves its messages unresolved, and is declared again")
{
    private_vhost vhost;
    rabbitmq_fixture fixture{vhost.where()};
    auto const service = fixture.service();
    auto const publisher = fixture.transport().open_publisher();
    operator_hands{vhost.where()}.delete_exchange(skald::rabbitmq::exchange_name);
    auto const receipts = publish(*publisher, numbered(service, 3));
    for (auto const& one : receipts) {
        CHECK(one.status == publish_status::unresolved);
        CHECK(one.reason.find("NOT_FOUND") != std::string::npos);
    }
    CHECK(wait_until([&] { return publisher->available(); }));
    auto const subscription = fixture.transport().subscribe({service, 1});
    CHECK(all_confirmed(publish(*publisher, numbered(service, 3))));
}

TEST_CASE("what an operator deletes under a consumer is there again soon, and no consumer notices")
{
    private_vhost vhost;
    rabbitmq_fixture fixture{vhost.where()};
    auto const service = fixture.service();
    auto options = fixture.options();
    options.heartbeat_seconds = 10;  // a busy machine must not lose the connection by itself
    options.rebind_every = std::chrono::milliseconds{100};
    skald::rabbitmq::rabbitmq_transport transport{options, fixture.log()};
    auto const subscription = transport.subscribe({service, 1});
    auto const publisher = transport.open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 1, "before-"))));
    REQUIRE(collect_ids(*subscription, 1) == std::set<std::string>{"before-0"});

    operator_hands hands{vhost.where()};
    SUBCASE("a binding")
    {
        hands.unbind(skald::rabbitmq::queue_name(service), service);
    }
    SUBCASE("the exchange, and with it the bindings of all")
    {
        hands.delete_exchange(skald::rabbitmq::exchange_name);
    }
    int round = 0;
    CHECK(wait_until([&] {
        return publisher->available() &&
               publish(*publisher, numbered(service, 1, "after-" + std::to_string(++round) + "-")).front().status ==
                   publish_status::confirmed;
    }));
    CHECK(collect_ids(*subscription, 1).size() == 1);
    // Unless the exchange goes in the very moment between a renewal's declaration and its binding.
    auto const lines = fixture.log().lines();
    auto const lost = lines.find("broker.lost role=consumer");
    INFO(lines);
    if (lost != std::string::npos)
        CHECK(lines.substr(lost, lines.find('\n', lost) - lost).find("NOT_FOUND - no exchange 'skald'") !=
              std::string::npos);
}

namespace {

// Takes all of `count` messages, each for the first time, and acks them. `is_marked`: the broker says that they were
// delivered before.
void take_for_the_first_time(skald::ports::subscription& from, std::size_t count, bool is_marked = false)
{
    std::set<std::string> ids;
    while (ids.size() < count) {
        auto const some = from.take(10, 5s);
        REQUIRE(!some.empty());
        for (auto const& one : some) {
            CHECK(one.given_up == is_marked);
            CHECK((one.returns > 0) == is_marked);
            ids.insert(one.message.id);
            from.ack(one.tag);
        }
    }
}

}  // namespace

TEST_CASE("messages that a policy lets expire before they are delivered are delivered all the same")
{
    private_vhost vhost;
    rabbitmq_fixture fixture{vhost.where()};
    auto const service = fixture.service();
    fixture.transport().subscribe({service, 10})->stop();
    REQUIRE(control("set_policy -p " + vhost.name() + " --apply-to queues short '^skald[.]" + service +
                    "$' '{\"message-ttl\": 1}'"));
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 5))));
    operator_hands hands{vhost.where()};
    CHECK(wait_until([&] { return hands.messages_in(skald::rabbitmq::parked_queue_name(service)) == 5; }));

    auto const subscription = fixture.transport().subscribe({service, 10});
    take_for_the_first_time(*subscription, 5);
    CHECK(fixture.log().has("warning test broker.dead_lettered reason=expired"));
}

// RabbitMQ 4 marks the first delivery of what was dead-lettered after a delivery as if it were the second.
TEST_CASE("messages that another consumer rejected, or that were sent to the parked queue itself, are delivered")
{
    rabbitmq_fixture fixture;
    auto const service = fixture.service();
    fixture.transport().subscribe({service, 10})->stop();
    auto const publisher = fixture.transport().open_publisher();
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
    auto const parked = skald::rabbitmq::parked_queue_name(service);
    operator_hands hands;
    hands.reject_all(skald::rabbitmq::queue_name(service), 3);
    CHECK(wait_until([&] { return hands.messages_in(parked) == 3; }));
    {
        auto const subscription = fixture.transport().subscribe({service, 10});
        take_for_the_first_time(*subscription, 3, hands.major_version() >= 4);
        CHECK(fixture.log().has("warning test broker.dead_lettered reason=rejected"));
    }

    auto const id = skald::rabbitmq::bytes("sent-there");
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_MESSAGE_ID_FLAG;
    properties.message_id = id;
    auto const key = skald::rabbitmq::bytes(parked);
    amqp_basic_publish(hands.raw(), 1, amqp_empty_bytes, key, 0, 0, &properties, skald::rabbitmq::bytes("{}"));
    CHECK(wait_until([&] { return hands.messages_in(parked) == 1; }));
    auto const subscription = fixture.transport().subscribe({service, 10});
    take_for_the_first_time(*subscription, 1);
}

TEST_CASE("an operator who looks at the broker is told that it takes no messages, and why")
{
    auto const url = url_of(test_broker());
    rabbitmq_fixture fixture;  // declares the exchanges
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 1});
    REQUIRE(wait_until([&] { return skald::rabbitmq::inspect(url, "").missing_exchange == std::nullopt; }));
    CHECK(skald::rabbitmq::inspect(url, "").takes_nothing == "");
    {
        memory_alarm const alarm;
        auto const why = skald::rabbitmq::inspect(url, "").takes_nothing;
        CHECK_MESSAGE(why.find("memory") != std::string::npos, why);
    }
    CHECK(wait_until([&] { return skald::rabbitmq::inspect(url, "").takes_nothing.empty(); }));
}

TEST_CASE("of the nodes in the URL whichever answers is taken")
{
    rabbitmq_fixture fixture;
    auto options = fixture.options();
    // Nobody listens on port 1.
    options.url.insert(options.url.find('@') + 1, "127.0.0.1:1,localhost:1,");
    skald::rabbitmq::rabbitmq_transport transport{options, fixture.log()};
    auto const service = fixture.service();
    auto const subscription = transport.subscribe({service, 1});
    auto const publisher = transport.open_publisher();
    REQUIRE(wait_until([&] { return publisher->available(); }));
    CHECK(all_confirmed(publish(*publisher, numbered(service, 1))));
    CHECK(collect(*subscription, 1).size() == 1);
}
