// What an operator sees of a Kafka and makes there; and topics as they are met: with records of others, and with
// processes that come and go.
#include "support/descriptors.hpp"
#include "support/kafka_double.hpp"
#include "transport_kafka_fixture.hpp"

#include "kafka/administration.hpp"
#include "kafka/consumer.hpp"
#include "runtime/publish_loop.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>

using namespace skald::test;
namespace kafka = skald::kafka_detail;
namespace ports = skald::ports;

namespace {

void send(kafka_fixture& f, std::vector<ports::outgoing> const& rows)
{
    auto const publisher = f.transport().open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, rows)));
}

// Acked at once.
void take_from(ports::subscription& from, std::map<std::string, int>& ids, int& unreadable)
{
    for (auto const& one : from.take(64, 20ms)) {
        if (one.problem.empty()) ++ids[one.message.id];
        else ++unreadable;
        from.ack(one.tag);
    }
}

// A turn of a subscription's thread.
void take_from(kafka::consumer& from, std::set<std::string>& ids)
{
    skald::transports::mailbox box;
    box.connected();
    from.keep();
    from.take(box);
    for (auto const& one : box.take(100, 10ms)) {
        ids.insert(one.message.id);
        box.ack(one.tag);
    }
    from.settle(box.collect());
}

}  // namespace

TEST_CASE("an inspection counts what is not settled, and who consumes")
{
    kafka_fixture f;
    auto const service = f.service();
    kafka::inspector look{f.options(), {service}};
    CHECK(look.look().topics.at(0).partitions == 0);
    {
        auto const subscription = f.transport().subscribe({service, 10, "orders-of-here"});
        send(f, numbered(service, 5));
        auto const taken = collect(*subscription, 5);
        REQUIRE(taken.size() == 5);
        subscription->ack(taken[0].tag);
        subscription->ack(taken[3].tag);  // beyond the number that Kafka has
        CHECK(wait_until([&] { return look.look().topics.at(0).waiting == 3; }));
        auto const seen = look.look();
        CHECK(seen.members == 1);
        CHECK(seen.brokers >= 1);
        CHECK(seen.database == "orders-of-here");
        ack_all(*subscription, taken);
        CHECK(wait_until([&] { return look.look().topics.at(0).waiting == 0; }));
    }
    CHECK(wait_until([&] { return look.look().members == 0; }));
}

TEST_CASE("an inspection ends although a broker that would have to answer is away, and says so")
{
    kafka_in_part const cluster{"payments"};
    kafka::options options;
    options.brokers = cluster.brokers();
    kafka::inspector look{options, {"payments"}};
    std::string why;
    try {
        look.look(2s);
    }
    catch (kafka::kafka_unsettled const& error) {
        why = error.what();
    }
    CHECK_MESSAGE(why.starts_with("asking where a partition begins and ends: Local: "), why);
    CHECK_MESSAGE(why.find("/2: Connect to ") != std::string::npos, why);  // which one
}

TEST_CASE("a process that is given a partition whose leader is away says so, and does not wait for it for good")
{
    kafka_in_part const cluster{"payments"};
    recording_logger log;
    kafka::options options;
    options.brokers = cluster.brokers();
    options.shape.partitions = 1;
    options.reconnect = {10ms, 200ms};
    kafka::kafka_transport transport{options, log};
    auto const subscription = transport.subscribe({"payments", 10});
    CHECK(wait_until([&] {
        subscription->take(1, 20ms);
        return log.has("asking where a partition begins and ends");
    }));
    CHECK_MESSAGE(log.has("broker.lost role=consumer"), log.lines());
}

TEST_CASE("a topic that is deleted under its consumer is made again, and the consumer can still be ended")
{
    kafka_fixture f;
    auto const service = f.service();
    for (bool const waits : {false, true}) {
        auto const subscription = f.transport().subscribe({service, 10});
        send(f, numbered(service, 2));
        REQUIRE(collect(*subscription, 2).size() == 2);
        f.delete_topic("skald." + service);
        if (!waits) continue;
        CHECK(wait_until([&] { return f.topics().contains("skald." + service); }));
        send(f, batch({message_for(service, "again")}));
        auto const taken = collect(*subscription, 1);
        CHECK(taken.size() == 1);
    }
}

TEST_CASE("a topic that is deleted and made again at once is read by those who read the old one")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const one = f.transport().subscribe({service, 10}), two = f.transport().subscribe({service, 10});
    send(f, numbered(service, 2));
    std::map<std::string, int> ids;
    int unreadable = 0;
    auto const come = [&](std::size_t n) {
        return wait_until([&] {
            for (auto const* from : {&one, &two}) take_from(**from, ids, unreadable);
            return ids.size() == n;
        });
    };
    REQUIRE(come(2));
    f.delete_topic("skald." + service);
    CHECK(wait_until([&] { return !f.topics().contains("skald." + service); }));
    f.make_topic("skald." + service);
    send(f, batch({message_for(service, "again")}));
    CHECK(come(3));
}

TEST_CASE("topics are made as the settings say, and an inspection says how they are")
{
    kafka_fixture f;
    auto const service = f.service(), theirs = "theirs-" + service;
    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = theirs}, {.routing_key = "bound-" + service}}}};
    auto options = f.options();
    options.shape = {.partitions = 3, .replicas = 1, .in_sync_min = 1};
    CHECK(kafka::provision(options, who) ==
          std::vector<std::string>{"skald." + service, "skald.bound-" + service});  // and none of others
    CHECK(kafka::provision(options, who).size() == 2);                              // a second time changes nothing
    auto const seen = kafka::inspector{options, who}.look();
    REQUIRE(seen.topics.size() == 3);
    auto const& own = seen.topics[0];
    CHECK(own.partitions == 3);
    CHECK(own.replicas == 1);
    CHECK(own.in_sync == 1);
    CHECK(own.leaderless == 0);
    CHECK(own.properties.at("min.insync.replicas") == "1");
    CHECK(own.properties.at("retention.ms") == "-1");
    CHECK(seen.topics[2].name == theirs);
    CHECK(seen.topics[2].is_foreign);
    CHECK(seen.topics[2].partitions == 0);
}

TEST_CASE("of a topic in which one record in a thousand can't be read, every other comes, once")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const subscription = f.transport().subscribe({service, 200});
    constexpr int thousands = 4;
    for (int i = 0; i < thousands; ++i) {
        send(f, numbered(service, 999, "batch-" + std::to_string(i) + "-"));
        f.write("skald." + service, "", {{"skald.destination", "\xff"}}, std::string(1'000, '\xff'));
    }
    std::map<std::string, int> ids;
    int unreadable = 0;
    CHECK(wait_until([&] {
        take_from(*subscription, ids, unreadable);
        return ids.size() == 999 * thousands && unreadable == thousands;
    }));
    CHECK(ids.size() == 999 * thousands);
    CHECK(std::ranges::all_of(ids, [](auto const& one) { return one.second == 1; }));
    CHECK(nothing_comes(*subscription));
}

TEST_CASE("while processes of a service come and go without end, nothing is lost, and little comes twice")
{
    kafka_fixture f;
    auto options = f.options();
    options.shape.partitions = 4;
    kafka::kafka_transport transport{options, f.log()};
    auto const service = f.service();
    constexpr std::uint16_t prefetch = 20;
    auto const stays = transport.subscribe({service, prefetch});
    std::map<std::string, int> ids;
    int unreadable = 0;
    std::size_t sent = 0;
    constexpr int rounds = 8;
    for (int round = 0; round < rounds; ++round) {
        auto passes_by = transport.subscribe({service, prefetch});
        send(f, numbered(service, 100, "round-" + std::to_string(round) + "-"));
        sent += 100;
        // It goes when it has some, or all is done without it.
        CHECK(wait_until([&] {
            take_from(*stays, ids, unreadable);
            auto const before = ids.size();
            take_from(*passes_by, ids, unreadable);
            return ids.size() > before || ids.size() == sent;
        }));
    }
    CHECK(wait_until([&] {
        take_from(*stays, ids, unreadable);
        return ids.size() == sent;
    }));
    CHECK(unreadable == 0);
    // What was out when its partition went to another, and was not settled in time: at most what a process may have.
    int twice = 0;
    for (auto const& [id, count] : ids) twice += count - 1;
    CHECK(twice <= 2 * rounds * prefetch);
}

// It is answered when all members have joined again, and one of them does not ask for seven seconds.
TEST_CASE("a process that ends before its group has answered does not keep partitions that nobody reads")
{
    kafka_fixture f;
    auto const service = f.service();
    kafka::consumer_settings const settings{kafka::connection_properties(f.options()), {service, 100}, {}, false};
    auto hangs = settings;
    hangs.properties.insert(hangs.properties.end(), {{"session.timeout.ms", "6000"}, {"max.poll.interval.ms", "7000"}});
    auto const join = [&f](kafka::consumer_settings const& as) {
        auto one = std::make_unique<kafka::consumer>(as, 1, f.log());
        REQUIRE(wait_until([&] { return one->keep(), one->is_member(); }));
        return one;
    };
    f.make_topic("skald." + service, 4);
    auto hanging = join(hangs);
    auto const stays = join(settings);  // the other is asked to give up partitions
    {
        kafka::consumer const ends{settings, 1, f.log()};
    }
    hanging.reset();
    send(f, numbered(service, 100));
    std::set<std::string> ids;
    CHECK(wait_until([&] {
        take_from(*stays, ids);
        return ids.size() == 100;
    }));
    stays->close();
}

TEST_CASE("of what a process was given that stops, only what it took counts as handed out in vain")
{
    kafka_fixture f;
    auto const service = f.service();
    auto stops = f.transport().subscribe({service, 10});
    constexpr int count = 1'000;
    send(f, numbered(service, count));
    auto const held = collect(*stops, 1);
    REQUIRE(held.size() == 1);
    SUBCASE("while it has what it took")
    {
        stops->stop();
    }
    SUBCASE("and ends")
    {
        stops.reset();
    }
    auto const next = f.transport().subscribe({service, count});
    auto const all = collect(*next, count);
    CHECK(all.size() == count);
    for (auto const& one : all) {
        INFO(one.message.id);
        CHECK(one.returns == (one.message.id == held[0].message.id ? 1 : 0));
    }
}

TEST_CASE("a process whose broker does not answer any more can be ended")
{
    kafka_fixture f;
    auto const service = f.service();
    auto ending = f.transport().subscribe({service, 10});
    send(f, numbered(service, 1));
    auto const taken = collect(*ending, 1);
    REQUIRE(taken.size() == 1);
    f.proxy().hold_answers(true);
    ack_all(*ending, taken);
    std::atomic<bool> has_ended{};
    std::thread ends{[&] {
        ending.reset();
        has_ended = true;
    }};
    CHECK(wait_until([&] { return has_ended.load(); }));
    f.proxy().hold_answers(false);
    ends.join();
}

TEST_CASE("a process that has no descriptors left for a while consumes when it has some again")
{
    kafka_fixture f;
    ports::subscriber const who{f.service(), 10};
    auto& transport = f.transport();
    std::unique_ptr<ports::subscription> waits;
    {
        few_descriptors const one{1};  // for what its lanes wait at
        waits = transport.subscribe(who);
        CHECK_FALSE(waits->available());
        CHECK(f.log().has("broker.lost role=consumer broker=kafka reason=\"eventfd: Too many open files\""));
    }
    CHECK(wait_until([&] { return waits->available(); }));
    send(f, batch({message_for(who.service)}));
    CHECK(collect(*waits, 1).size() == 1);
}

TEST_CASE("what can't be written to one topic is put off, and holds up no other")
{
    kafka_double cluster{{"skald.stuck", "skald.other"}};
    recording_logger log;
    kafka::options options;
    options.brokers = cluster.brokers();
    kafka::kafka_transport transport{options, log};
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    auto const deadline = skald::runtime::publish_options{}.deadline;
    auto const both = batch({message_for("stuck"), message_for("other")});
    REQUIRE(all_confirmed(publish(*publisher, both, deadline)));
    cluster.set_leader("skald.stuck", -1);
    for (int i = 0; i < 2; ++i) {
        auto const receipts = publish(*publisher, both, deadline);
        CHECK_MESSAGE(receipts[0].status == publish_status::nacked, receipts[0].reason);
        CHECK(receipts[1].status == publish_status::confirmed);
    }
    cluster.set_leader("skald.stuck", 1);
    CHECK(all_confirmed(publish(*publisher, both, deadline)));
    CHECK_MESSAGE(!log.has("broker.lost"), log.lines());
}

TEST_CASE("a publisher under which a topic is made again soon believes its confirms, and sends little twice")
{
    kafka_fixture f;
    auto const service = f.service(), topic = "skald." + service;
    f.make_topic(topic);
    auto const publisher = f.transport().open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 50, "before"))));
    f.delete_topic(topic);
    CHECK(wait_until([&] { return !f.topics().contains(topic); }));
    f.make_topic(topic);
    for (auto const status : publish_until_answered(*publisher, numbered(service, 5, "after")))
        CHECK(status == publish_status::confirmed);
    kafka::inspector look{f.options(), {service}};
    CHECK(look.look().topics.at(0).waiting >= 5);
    CHECK(look.look().topics.at(0).waiting <= 7);
}

TEST_CASE("what is sent to a topic that was deleted under its publisher comes back")
{
    kafka_fixture f;
    auto options = f.options();
    options.properties = {{"topic.metadata.refresh.interval.ms", "100"}};
    kafka::kafka_transport transport{options, f.log()};
    auto const service = f.service(), topic = "skald." + service;
    f.make_topic(topic);
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 1))));
    f.delete_topic(topic);
    CHECK(wait_until([&] { return !f.topics().contains(topic); }));
    CHECK(publisher->collect(1s).empty());  // by then it knows
    auto const receipts = publish(*publisher, numbered(service, 1));
    CHECK_MESSAGE(receipts[0].status == publish_status::returned, receipts[0].reason);
    CHECK(receipts[0].reason.starts_with("Kafka has no topic `" + topic + "`"));
}
