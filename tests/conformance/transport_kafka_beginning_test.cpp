// Where a group begins in a partition, and that it asks again for what should have come.
#include "support/kafka_double.hpp"
#include "transport_kafka_fixture.hpp"

#include "core/instant.hpp"
#include "kafka/administration.hpp"
#include "kafka/progress.hpp"

using namespace skald::test;
namespace ports = skald::ports;
namespace kafka = skald::kafka_detail;
using std::chrono::days;

namespace {

void send(kafka_fixture& f, std::vector<ports::outgoing> const& rows)
{
    auto const publisher = f.transport().open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, rows)));
}

}  // namespace

TEST_CASE("a group without an offset takes nothing where records are older than the guard remembers")
{
    kafka_fixture f;
    std::size_t connections = 0;
    for (auto const& ages : {std::vector{31}, std::vector{31, 29}}) {
        auto const service = f.service();
        auto const topic = "skald." + service;
        f.make_topic(topic);
        for (auto const age : ages) f.write(topic, "key", {}, "body", days{age});
        {
            auto const refused = f.transport().subscribe({service, 10});
            CHECK(wait_until([&] { return !refused->available(); }));
            CHECK(refused->last_error().find("has no offset in partition 0 of " + topic) != std::string::npos);
            CHECK(refused->last_error().find(" --bootstrap-server " + f.options().brokers) != std::string::npos);
            CHECK(nothing_comes(*refused));
            // Each attempt joins the group before it sees what is there: that is no connection that came and went.
            auto const times = f.log().count("broker.lost role=consumer");
            CHECK(wait_until([&] { return f.log().count("broker.lost role=consumer") > times + 1; }));
            CHECK(f.log().count("broker.connected role=consumer") == ++connections);
        }
        f.set_back(topic, 1);  // as an operator does
        auto const subscription = f.transport().subscribe({service, 10});
        send(f, batch({message_for(service, "next")}));
        auto const taken = collect(*subscription, 1);
        REQUIRE(taken.size() == 1);
        CHECK(subscription->available());
        ++connections;
    }
}

TEST_CASE("a group that was forgotten is told all its partitions at once, and from when on it may begin")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const topic = "skald." + service;
    f.make_topic(topic, 2);
    for (int i = 0; i < 20; ++i) f.write(topic, "key " + std::to_string(i), {}, "body", days{2});
    ports::subscriber who{service, 10};
    who.forgot_before = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) - days{1};
    auto const since = skald::core::write_instant(*who.forgot_before + std::chrono::hours{2}).substr(0, 19);
    auto const refused = f.transport().subscribe(who);
    CHECK(wait_until([&] { return !refused->available(); }));
    auto const said = refused->last_error();
    CHECK_MESSAGE(said.find("has no offset in partitions 0, 1 of " + topic) != std::string::npos, said);
    CHECK_MESSAGE(said.find("--topic " + topic + ":0,1 --reset-offsets --to-datetime " + since) != std::string::npos,
                  said);
    auto const seen = kafka::inspector{f.options(), who}.look();
    CHECK(seen.lost.find("has no offset in partitions 0, 1 of " + topic) != std::string::npos);
    CHECK(seen.lost_remedy.find("--to-datetime " + since) != std::string::npos);
}

TEST_CASE("a topic that no process reads any more does not make a group that goes on a lost one")
{
    kafka_fixture f;
    auto const service = f.service(), theirs = "theirs-" + service;
    f.make_topic(theirs);
    f.write(theirs, "key", {}, "body", days{31});
    ports::subscriber who{service, 10};
    who.handlers = {{"removed", 10, {{.routing_key = "", .exchange = theirs}}}};
    kafka::inspector look{f.options(), who};
    CHECK(look.look().lost.find("has no offset in partition 0 of " + theirs) != std::string::npos);
    auto const goes_on = f.transport().subscribe({service, 10});
    CHECK(wait_until([&] { return look.look().unread == std::vector{theirs}; }));
    CHECK(look.look().lost == "");
}

TEST_CASE("that a group is lost is said although another topic has no leader")
{
    // It finds no record by its time, which is what a Kafka says of a partition of old ones.
    kafka_double cluster{{"skald.payments", "theirs"}};
    recording_logger log;
    kafka::options options;
    options.brokers = cluster.brokers();
    kafka::kafka_transport transport{options, log};
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, batch({message_for("payments")}))));
    cluster.set_leader("theirs", -1);
    ports::subscriber who{"payments", 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = "theirs"}}}};
    auto const refused = transport.subscribe(who);
    CHECK(wait_until([&] {
        refused->take(1, 20ms);
        return log.has("has no offset in partition 0 of skald.payments");
    }));
    CHECK_MESSAGE(log.has("--topic skald.payments:0 --reset-offsets"), log.lines());
    CHECK_MESSAGE(log.has("with TLS or SASL, add `--command-config FILE`"), log.lines());
}

TEST_CASE("what Kafka deleted before anybody read it is said, and what is left is read")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const topic = "skald." + service;
    {
        auto const joined = f.transport().subscribe({service, 10});
    }
    send(f, batch({message_for(service, "gone"), message_for(service, "too"), message_for(service, "left")}));
    f.set_back(topic, 0);
    f.delete_before(topic, 2);
    auto const subscription = f.transport().subscribe({service, 10});
    CHECK(collect(*subscription, 1).size() == 1);
    CHECK(f.log().has("broker.deleted_unread topic=" + topic + " partition=0 from=0 to=1"));
}

TEST_CASE("what Kafka deleted of a service's topic before its group had begun is said, and not of a topic of others")
{
    kafka_fixture f;
    auto const service = f.service(), own = "skald." + service, theirs = "theirs-" + service;
    for (auto const& topic : {own, theirs}) {
        f.make_topic(topic);
        for (auto const* value : {"gone", "left"}) f.write(topic, "key", {}, value);
        f.delete_before(topic, 1);
    }
    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = theirs}}}};
    auto const seen = kafka::inspector{f.options(), who}.look();
    CHECK(seen.topics.at(0).deleted_unread == 1);
    CHECK(seen.topics.at(1).deleted_unread == 0);
    auto const subscription = f.transport().subscribe(who);
    CHECK(collect(*subscription, 2).size() == 2);
    CHECK(f.log().count("broker.deleted_unread") == 1);
    CHECK(f.log().has("broker.deleted_unread topic=" + own + " partition=0 from=0 to=0"));
}

TEST_CASE(
    "a group without an offset begins with the first record where all are younger than that, and than what was purged")
{
    kafka_fixture f;
    for (bool const is_purged : {false, true}) {
        auto const service = f.service();
        f.make_topic("skald." + service);
        f.write("skald." + service, "key", {}, "young", days{29});
        auto const now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
        auto const all = f.transport().subscribe({service, 10, {}, {}, now - days{is_purged ? 28 : 30}});
        if (is_purged) CHECK(wait_until([&] { return !all->available(); }));
        else CHECK(collect(*all, 1).size() == 1);
    }
}

TEST_CASE("records that do not come are asked for again, and what was never there holds up nothing")
{
    kafka_fixture f;
    auto const service = f.service();
    auto const all = f.transport().subscribe({service, 10});
    for (auto const* value : {"1", "2"}) f.write_in_transaction("skald." + service, {}, value);
    send(f, batch({message_for(service, "next")}));
    std::set<std::string> bodies;  // some come more than once
    CHECK(wait_until([&] {
        for (auto const& one : all->take(10, 100ms)) bodies.insert(one.message.body);
        return bodies.size() == 3;
    }));
    CHECK(f.log().has("the records from 1 to before 2 did not come: they are asked for again"));
    CHECK(f.log().has("the records from 3 to before 4 did not come: they are asked for again"));
}

TEST_CASE("a gap of any length in the numbers of a topic of others holds up no more than what is out")
{
    kafka_fixture f;
    auto const service = f.service(), theirs = "theirs-" + service;
    f.make_topic(theirs);
    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 10, {{.routing_key = "", .exchange = theirs}}}};
    auto subscription = f.transport().subscribe(who);
    f.write(theirs, "key", {}, "before");
    auto const before = collect(*subscription, 1);
    REQUIRE(before.size() == 1);
    f.write_in_vain(theirs, kafka::progress::window + 1);
    f.write(theirs, "key", {}, "after");
    CHECK(nothing_comes(*subscription));
    ack_all(*subscription, before);
    auto const after = collect(*subscription, 1);
    REQUIRE(after.size() == 1);
    CHECK(after[0].message.body == "after");
    ack_all(*subscription, after);
    subscription.reset();
    CHECK(nothing_comes(*f.transport().subscribe(who)));
    CHECK_FALSE(f.log().has("broker.lost"));
}

TEST_CASE("what Kafka deletes before a process that reads it has come so far is said, and the rest is read")
{
    kafka_fixture f;
    auto options = f.options();
    // So that it reads a record at a time, and none ahead.
    options.properties = {{"queued.min.messages", "1"}, {"fetch.message.max.bytes", "1"}};
    kafka::kafka_transport transport{options, f.log()};
    auto const service = f.service(), theirs = "theirs-" + service;
    f.make_topic(theirs);
    constexpr int count = 10, left = 8;
    for (int i = 0; i < count; ++i) f.write(theirs, "key", {}, std::to_string(i), days{31});
    f.set_back(theirs, 0, "skald." + service);
    ports::subscriber who{service, 10};
    who.handlers = {{"entered", 1, {{.routing_key = "", .exchange = theirs}}}};
    auto const subscription = transport.subscribe(who);
    auto taken = collect(*subscription, 1);
    REQUIRE(taken.size() == 1);
    f.delete_before(theirs, left);
    ack_all(*subscription, taken);
    int next = 1;  // that has not come
    for (std::string last = "0"; last != std::to_string(count - 1);) {
        taken = collect(*subscription, 1);
        REQUIRE(taken.size() == 1);
        last = taken[0].message.body;
        if (last == std::to_string(next)) ++next;
        ack_all(*subscription, taken);
    }
    REQUIRE(next < left);
    CHECK_MESSAGE(f.log().has("broker.deleted_unread topic=" + theirs + " partition=0 from=" + std::to_string(next) +
                              " to=" + std::to_string(left - 1)),
                  f.log().lines());
}
