// What Kafka promises beyond what every transport keeps: who has a partition, what is counted of it, and which topics
// there are.
#include "transport_kafka_fixture.hpp"

#include "kafka/administration.hpp"
#include "kafka/progress.hpp"

#include <skald/errors.hpp>

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

// What both get until there are so many that are not the same, acked at once.
std::multiset<std::string> taken_by(ports::subscription& one, ports::subscription& other, std::size_t count,
                                    std::array<std::size_t, 2>& each)
{
    std::multiset<std::string> ids;
    std::set<std::string> known;
    auto const until = clock::now() + patience;
    while (known.size() < count && clock::now() < until)
        for (std::size_t i = 0; i < 2; ++i) {
            auto& from = i == 0 ? one : other;
            for (auto const& delivery : from.take(64, 20ms)) {
                ids.insert(delivery.message.id);
                known.insert(delivery.message.id);
                from.ack(delivery.tag);
                ++each[i];
            }
        }
    return ids;
}

struct takes_partitions : kafka::listener
{
    void rebalanced(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t const* which) override
    {
        has_some = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        rd_kafka_assign(of, has_some ? which : nullptr);
    }
    rd_kafka_t* of{};
    bool has_some{};
};

std::string refusal(auto const& act)
{
    try {
        act();
    }
    catch (skald::configuration_error const& error) {
        return error.what();
    }
    return "it was accepted";
}

}  // namespace

TEST_CASE("a service's partitions go over to who joins, and what is acked in time does not come twice")
{
    kafka_fixture f;
    auto options = f.options();
    options.shape.partitions = 4;
    kafka::kafka_transport transport{options, f.log()};
    auto const service = f.service();
    auto const one = transport.subscribe({service, 20});
    send(f, numbered(service, 200, "before"));
    auto const other = transport.subscribe({service, 20});  // the others are under way
    std::array<std::size_t, 2> each{};
    auto const before = taken_by(*one, *other, 200, each);
    CHECK(std::set(before.begin(), before.end()).size() == 200);
    CHECK(before.size() == 200);

    // Both have some now, or soon; while partitions go over, some may come twice (docs/kafka.md).
    int round = 0;
    CHECK(wait_until([&] {
        each = {};
        send(f, numbered(service, 40, "after-" + std::to_string(++round) + "-"));
        auto const after = taken_by(*one, *other, 40, each);
        CHECK(std::set(after.begin(), after.end()).size() >= 40);  // and late ones of the round before
        return each[0] > 0 && each[1] > 0;
    }));
    CHECK_MESSAGE(!f.log().has("did not come"), f.log().lines());
}

TEST_CASE("processes of a service before and after a handler was added share its partitions, and none is lost")
{
    kafka_fixture f;
    auto options = f.options();
    options.shape.partitions = 4;
    auto const service = f.service(), theirs = "theirs-" + service;
    f.make_topic(theirs);
    ports::subscriber newer{service, 20};
    newer.handlers = {{"entered", 20, {{.routing_key = "", .exchange = theirs}}}};
    kafka::kafka_transport transport{options, f.log()};
    auto old = transport.subscribe({service, 20});
    auto joined = transport.subscribe(newer);
    for (int round = 0; round < 3; ++round) {
        auto const name = "round-" + std::to_string(round) + "-";
        send(f, numbered(service, 40, name));
        f.write(theirs, name, {}, "{}");
        std::set<std::string> seen;
        CHECK(wait_until([&] {
            for (auto* const from : {old.get(), joined.get()})
                for (auto const& one : from->take(64, 20ms)) {
                    auto const key = one.handler.empty() ? std::optional<std::string_view>{one.message.id}
                                                         : skald::core::find_header(one.message.headers, "kafka-key");
                    if (key && key->starts_with(name)) seen.emplace(*key);
                    from->ack(one.tag);
                }
            return seen.size() == 41;
        }));
        // Whoever is replaced leaves while the group is at work.
        if (round == 0) old = transport.subscribe({service, 20});
        if (round == 1) joined = transport.subscribe(newer);
    }
}

TEST_CASE("what a process had that was killed is counted when it comes again")
{
    kafka_fixture f;
    auto options = f.options();
    options.properties = {{"session.timeout.ms", "6000"}};
    auto const service = f.service();
    auto const killed = std::make_unique<kafka::kafka_transport>(options, f.log());
    auto subscription = killed->subscribe({service, 10});
    send(f, numbered(service, 3));
    auto const had = collect(*subscription, 3);
    REQUIRE(had.size() == 3);
    f.go_down();  // so that nothing more is heard of it
    CHECK(wait_until([&] { return !subscription->available(); }));
    subscription.reset();
    f.come_back();
    auto const next = f.transport().subscribe({service, 10});
    auto const again = collect(*next, 3);
    REQUIRE(again.size() == 3);
    for (auto const& one : again) CHECK(one.returns >= 1);
    ack_all(*next, again);
}

TEST_CASE("what came back often runs with ever fewer others, so that what ends a process is found in few turns")
{
    kafka_fixture f;
    auto const service = f.service();
    constexpr int count = 80;
    auto subscription = f.transport().subscribe({service, count});
    send(f, numbered(service, count));
    std::vector<ports::delivery> had;
    auto const come_back = [&](std::size_t expected) {
        had = collect(*subscription, expected);
        REQUIRE(had.size() == expected);
        CHECK(nothing_comes(*subscription));
        for (auto const& one : had) subscription->requeue(one.tag);
    };
    for (int i = 0; i < kafka::suspect_after; ++i) come_back(count);
    come_back(64);
    for (int turn = 0; turn < 20 && had.size() > 4; ++turn) {
        had = collect(*subscription, 1);
        REQUIRE(had.size() == 1);
        for (bool any = true; any;) {
            auto more = subscription->take(count, short_while);
            any = !more.empty();
            std::ranges::move(more, std::back_inserter(had));
        }
        for (auto const& one : had) {
            CHECK(had.size() <= kafka::together_max(one.returns));
            subscription->requeue(one.tag);
        }
    }
    CHECK(had.size() <= 4);
}

TEST_CASE("nothing runs beside what came back most often")
{
    kafka_fixture f;
    auto const service = f.service();
    auto subscription = f.transport().subscribe({service, 10});
    send(f, numbered(service, 1));
    int returns = 0;
    for (; kafka::together_max(returns) > 1; ++returns) {
        auto const had = collect(*subscription, 1);
        REQUIRE(had.size() == 1);
        subscription->requeue(had[0].tag);
    }
    send(f, batch({message_for(service, "new")}));
    auto first = collect(*subscription, 1);
    REQUIRE(first.size() == 1);
    if (first[0].message.id == "new") {  // it was quicker
        ack_all(*subscription, first);
        send(f, batch({message_for(service, "new")}));
        first = collect(*subscription, 1);
        REQUIRE(first.size() == 1);
    }
    CHECK(first[0].returns == returns);
    CHECK(nothing_comes(*subscription));
    // Whoever has the partition next is as careful.
    subscription.reset();
    subscription = f.transport().subscribe({service, 10});
    auto const again = collect(*subscription, 1);
    REQUIRE(again.size() == 1);
    CHECK(again[0].returns > returns);
    CHECK(nothing_comes(*subscription));
    ack_all(*subscription, again);
    CHECK(collect_ids(*subscription, 1) == std::set<std::string>{"new"});
}

TEST_CASE("no topic is made by sending, nor where this process may make none")
{
    kafka_fixture f;
    auto const service = f.service();
    CHECK(publish(*f.transport().open_publisher(), batch({message_for(service)}))[0].status ==
          publish_status::returned);
    auto options = f.options();
    options.declares = false;
    kafka::kafka_transport transport{options, f.log()};
    auto const said = refusal([&] { transport.subscribe({service, 10}); });
    CHECK_MESSAGE(said.find("Kafka has no topic `skald." + service + "`") != std::string::npos, said);
    CHECK(said.find("SKALD_DECLARE=on") != std::string::npos);
    CHECK_FALSE(f.topics().contains("skald." + service));

    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = "theirs-" + service}}}};
    CHECK(refusal([&] { f.transport().subscribe(who); }).find("theirs-" + service) != std::string::npos);
    CHECK_FALSE(f.topics().contains("theirs-" + service));
}

TEST_CASE("what Kafka has no form of is refused at start, and says what to do")
{
    kafka_fixture f;
    ports::subscriber who{f.service(), 10};
    who.handlers = {{"entered", 10, {{.routing_key = "order.*", .exchange = "shop", .type = "topic"}}}};
    CHECK(refusal([&] { f.transport().subscribe(who); }).find("leave both out") != std::string::npos);
    who.handlers = {{"entered", 10, {{.routing_key = "an order"}}}};
    CHECK(refusal([&] { f.transport().subscribe(who); }).find("letters, digits") != std::string::npos);
    auto options = f.options();
    options.properties = {{"no.such.property", "1"}};
    kafka::kafka_transport transport{options, f.log()};
    CHECK(refusal([&] { transport.subscribe({f.service(), 10}); }).find("no.such.property") != std::string::npos);
}

TEST_CASE("a process whose database is another one takes nothing")
{
    kafka_fixture f;
    auto const service = f.service();
    {
        auto const first = f.transport().subscribe({service, 10, "orders-of-here"});
        send(f, batch({message_for(service)}));
        ack_all(*first, collect(*first, 1));
    }
    send(f, batch({message_for(service, "next")}));
    {
        auto const other = f.transport().subscribe({service, 10, "orders-of-there"});
        CHECK(wait_until([&] {
            return other->last_error().find("belongs to another database (orders-of-here)") != std::string::npos;
        }));
        CHECK_FALSE(other->available());
        CHECK(other->last_error().find("kafka-consumer-groups.sh --bootstrap-server " + f.options().brokers +
                                       " --group skald." + service + " --all-topics") != std::string::npos);
        CHECK(nothing_comes(*other));
    }
    CHECK(collect(*f.transport().subscribe({service, 10, "orders-of-here"}), 1).size() == 1);
}

TEST_CASE("a client to which records have come that nobody takes ends in order")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const first = f.transport().subscribe({service, 10});  // makes the topic
    send(f, numbered(service, 20));
    takes_partitions told;
    auto ending = std::make_unique<kafka::client>(RD_KAFKA_CONSUMER,
                                                  kafka::property_list{{"bootstrap.servers", f.options().brokers},
                                                                       {"group.id", service + ".another"},
                                                                       {"auto.offset.reset", "earliest"}},
                                                  told);
    told.of = ending->raw();
    auto const topics = kafka::make_list();
    rd_kafka_topic_partition_list_add(topics.get(), ("skald." + service).c_str(), RD_KAFKA_PARTITION_UA);
    REQUIRE(rd_kafka_subscribe(ending->raw(), topics.get()) == RD_KAFKA_RESP_ERR_NO_ERROR);
    REQUIRE(wait_until([&] {
        if (!told.has_some) ending->poll();
        return told.has_some;
    }));
    kafka::queue_ptr const records{rd_kafka_queue_get_consumer(ending->raw())};
    REQUIRE(wait_until([&] { return rd_kafka_queue_length(records.get()) >= 20; }));
    ending.reset();
}

TEST_CASE("a stopped process that does not settle what it has holds up others no longer than the drain")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const stopped = f.transport().subscribe({service, 10});
    send(f, numbered(service, 3));
    auto const taken = collect(*stopped, 1);
    REQUIRE(taken.size() == 1);
    stopped->stop();
    auto const other = f.transport().subscribe({service, 10});
    CHECK(collect_ids(*other, 3) == std::set<std::string>{"m0", "m1", "m2"});
    ack_all(*stopped, taken);  // in vain, and harmless
    CHECK(nothing_comes(*other));
}

TEST_CASE("a process that ends while it still has what it is asked to give up does end, and others go on")
{
    kafka_fixture f;
    auto options = f.options();
    options.shape.partitions = 4;
    options.drain = std::chrono::hours{1};
    kafka::kafka_transport transport{options, f.log()};
    auto const service = f.service();
    auto ending = transport.subscribe({service, 200});
    send(f, numbered(service, 40));
    REQUIRE(collect(*ending, 40).size() == 40);
    auto const other = transport.subscribe({service, 200});
    kafka::inspector looks{options, {service, 200}};
    CHECK(wait_until([&] { return looks.look().members == 2; }));
    CHECK(nothing_comes(*other));
    ending.reset();
    CHECK(collect_ids(*other, 40).size() == 40);
}

TEST_CASE("each message handler has a prefetch of its own")
{
    kafka_fixture f;
    auto const service = f.service();
    ports::subscriber who{service, 2};
    who.handlers.push_back({"quote", 1});
    auto const listening = f.transport().subscribe(who);
    send(f, numbered(service + ".on.quote", 2));
    auto const first = collect(*listening, 1);
    REQUIRE(first.size() == 1);
    CHECK(first[0].handler == "quote");
    CHECK(nothing_comes(*listening));
    ack_all(*listening, first);
    CHECK(collect(*listening, 1).size() == 1);
}

TEST_CASE("what is for a handler that a process of the service does not have is not lost")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const subscription = f.transport().subscribe({service, 2});
    send(f, batch({message_for(service + ".on.newer")}));
    auto const all = collect(*subscription, 1);
    REQUIRE(all.size() == 1);
    CHECK(all[0].problem == "");
    CHECK(all[0].handler == "newer");
    CHECK(all[0].message.destination == service + ".on.newer");
}
