// What every transport must keep. Run over RabbitMQ and over the in-memory double alike, so that the double is no second,
// secret specification.
//
// A test file makes a world and says TEST_CASE_TEMPLATE_INVOKE(<claim>, its_world) for what SKALD_TRANSPORT_CLAIMS lists.
// A world has:
//   ports::transport& transport();
//   std::string service();   // the name of a service of its own, new at each call
//   void go_down();          // every connection is lost, and no other can be made
//   void come_back();
#pragma once

#include "transport_helpers.hpp"

#include <thread>

#define SKALD_TRANSPORT_CLAIMS(world)                   \
    TEST_CASE_TEMPLATE_INVOKE(transport_delivery, world);   \
    TEST_CASE_TEMPLATE_INVOKE(transport_bytes, world);      \
    TEST_CASE_TEMPLATE_INVOKE(transport_receipts, world);   \
    TEST_CASE_TEMPLATE_INVOKE(transport_refusals, world);   \
    TEST_CASE_TEMPLATE_INVOKE(transport_acks, world);       \
    TEST_CASE_TEMPLATE_INVOKE(transport_taking, world);     \
    TEST_CASE_TEMPLATE_INVOKE(transport_stopping, world);   \
    TEST_CASE_TEMPLATE_INVOKE(transport_sharing, world);    \
    TEST_CASE_TEMPLATE_INVOKE(transport_outage, world);     \
    TEST_CASE_TEMPLATE_INVOKE(transport_giving_up, world)

namespace skald::test {

TEST_CASE_TEMPLATE_DEFINE("what is confirmed is delivered", World, transport_delivery)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();
    CHECK(publisher->available());
    CHECK(publisher->trouble() == "");
    CHECK(subscription->available());
    CHECK(subscription->trouble() == "");

    SUBCASE("to the service it is for, once, and not marked as redelivered or given up")
    {
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        auto const deliveries = collect(*subscription, 1);
        REQUIRE(deliveries.size() == 1);
        CHECK(deliveries[0].message.destination == service);
        CHECK_FALSE(deliveries[0].redelivered);
        CHECK_FALSE(deliveries[0].given_up);
        CHECK(deliveries[0].problem == "");
        CHECK(nothing_comes(*subscription));
    }
    SUBCASE("in the order published, while nothing fails")
    {
        CHECK(all_confirmed(publish(*publisher, numbered(service, 10))));
        auto const deliveries = collect(*subscription, 10);
        REQUIRE(deliveries.size() == 10);
        for (std::size_t i = 0; i < 10; ++i) CHECK(deliveries[i].message.id == "m" + std::to_string(i));
    }
    SUBCASE("and not to another service")
    {
        auto const other = world.transport().subscribe(world.service(), 10);
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        CHECK(collect(*subscription, 1).size() == 1);
        CHECK(nothing_comes(*other));
    }
    SUBCASE("also after its service's only subscription has gone for a while")
    {
        auto const absent = world.service();
        world.transport().subscribe(absent, 10).reset();
        CHECK(all_confirmed(publish(*publisher, batch({message_for(absent)}))));
        CHECK(collect(*world.transport().subscribe(absent, 10), 1).size() == 1);
    }
    SUBCASE("two thousand messages in batches larger than any window: none is lost, none comes twice")
    {
        std::multiset<std::string> seen;
        std::thread taker{[&] {
            auto const until = clock::now() + patience;
            while (seen.size() < 2'000 && clock::now() < until)
                for (auto const& one : subscription->take(64, 100ms)) {
                    seen.insert(one.message.id);
                    subscription->ack(one.tag);
                }
        }};
        for (int i = 0; i < 2; ++i)
            CHECK(all_confirmed(publish(*publisher, numbered(service, 1'000, std::to_string(i) + "-"))));
        taker.join();
        CHECK(seen.size() == 2'000);
        CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 2'000);
        CHECK(nothing_comes(*subscription));
    }
}

TEST_CASE_TEMPLATE_DEFINE("id, type, content type, headers and body arrive byte for byte", World, transport_bytes)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    std::string every_byte;
    for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
    std::string large;
    for (int i = 0; i < 4096; ++i) large += every_byte;

    auto sent = message_for(service);
    SUBCASE("an ordinary message") {}
    SUBCASE("an empty body") { sent.body.clear(); }
    SUBCASE("a body of one zero byte") { sent.body.assign(1, '\0'); }
    SUBCASE("a body of every byte there is") { sent.body = every_byte; }
    SUBCASE("a body of one mebibyte") { sent.body = large; }
    SUBCASE("a body as large as a frame, and a byte more")
    {
        sent.body = large.substr(0, 131'072 - 8);
        REQUIRE(all_confirmed(publish(*publisher, batch({sent}))));
        auto const first = collect(*subscription, 1);
        REQUIRE(first.size() == 1);
        CHECK(first[0].message.body == sent.body);
        sent.body = large.substr(0, 131'072 - 7);
    }
    SUBCASE("no headers") { sent.headers.clear(); }
    SUBCASE("nothing but a destination") { sent = {service, "", "", "", {}, ""}; }
    SUBCASE("another content type") { sent.content_type = "application/octet-stream"; }
    SUBCASE("the longest id, type, content type and header name there may be")
    {
        sent.id.assign(255, 'i');
        sent.type.assign(255, 't');
        sent.content_type.assign(255, 'c');
        sent.headers = {{std::string(255, 'h'), "value"}};
    }
    SUBCASE("headers of any bytes, empty and long ones")
    {
        sent.headers = {{"every-byte", every_byte}, {"empty", ""}, {"long", std::string(100'000, 'x')}, {"a b", "c\r\nd"}};
    }

    REQUIRE(all_confirmed(publish(*publisher, batch({sent}))));
    auto const deliveries = collect(*subscription, 1);
    REQUIRE(deliveries.size() == 1);
    auto const& received = deliveries[0].message;
    CHECK(received.destination == sent.destination);
    CHECK(received.id == sent.id);
    CHECK(received.type == sent.type);
    CHECK(received.content_type == sent.content_type);
    CHECK(received.headers == sent.headers);
    CHECK((received.body == sent.body));  // not printed if it fails: it may be large
    CHECK(deliveries[0].problem == "");
}

TEST_CASE_TEMPLATE_DEFINE("each row gets exactly one receipt, in the order given", World, transport_receipts)
{
    World world;
    auto const service = world.service();
    auto const nobody = world.service();
    auto const subscription = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    SUBCASE("none for an empty batch") { CHECK(publish(*publisher, {}).empty()); }
    SUBCASE("under the rows' own numbers, whatever they are")
    {
        std::vector<ports::outgoing> const rows{{7, message_for(service)}, {-3, message_for(service)}, {7, message_for(service)}};
        auto const receipts = publish(*publisher, rows);
        REQUIRE(receipts.size() == 3);
        CHECK(receipts[0].row == 7);
        CHECK(receipts[1].row == -3);
        CHECK(receipts[2].row == 7);
        CHECK(all_confirmed(receipts));
    }
    SUBCASE("a message that no queue is bound for is returned with a reason, its neighbours are confirmed")
    {
        auto const receipts =
            publish(*publisher, batch({message_for(service, "a"), message_for(nobody, "b"), message_for(service, "c")}));
        REQUIRE(receipts.size() == 3);
        CHECK(receipts[0].status == publish_status::confirmed);
        CHECK(receipts[0].reason == "");
        CHECK(receipts[1].status == publish_status::returned);
        CHECK(receipts[1].reason.find(nobody) != std::string::npos);
        CHECK(receipts[2].status == publish_status::confirmed);
        CHECK(collect_ids(*subscription, 2) == std::set<std::string>{"a", "c"});
    }
    SUBCASE("also where many messages have the same id and only some are returned")
    {
        std::vector<core::message> messages;
        for (int i = 0; i < 100; ++i) messages.push_back(message_for(i % 3 == 0 ? nobody : service, "same"));
        auto const receipts = publish(*publisher, batch(std::move(messages)));
        REQUIRE(receipts.size() == 100);
        for (std::size_t i = 0; i < 100; ++i)
            CHECK(receipts[i].status == (i % 3 == 0 ? publish_status::returned : publish_status::confirmed));
    }
    SUBCASE("what was returned is confirmed once somebody has subscribed")
    {
        CHECK(publish(*publisher, batch({message_for(nobody)}))[0].status == publish_status::returned);
        auto const late = world.transport().subscribe(nobody, 1);
        CHECK(all_confirmed(publish(*publisher, batch({message_for(nobody)}))));
    }
}

TEST_CASE_TEMPLATE_DEFINE("what can never be sent is refused, and its neighbours are confirmed", World, transport_refusals)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    std::string const too_long(256, 'x');
    auto bad = message_for(service, "bad");
    SUBCASE("an id of 256 bytes") { bad.id = too_long; }
    SUBCASE("a type of 256 bytes") { bad.type = too_long; }
    SUBCASE("a content type of 256 bytes") { bad.content_type = too_long; }
    SUBCASE("a destination of 256 bytes") { bad.destination = too_long; }
    SUBCASE("no destination") { bad.destination.clear(); }
    SUBCASE("a header's name of 256 bytes") { bad.headers.emplace_back(too_long, "value"); }
    SUBCASE("a header without a name") { bad.headers.emplace_back("", "value"); }
    SUBCASE("one header larger than a frame") { bad.headers.emplace_back("large", std::string(140'000, 'x')); }
    SUBCASE("many headers larger than a frame together")
    {
        for (int i = 0; i < 1'000; ++i) bad.headers.emplace_back("h" + std::to_string(i), std::string(140, 'x'));
    }
    SUBCASE("a header that the broker would obey") { bad.headers.emplace_back("CC", "somebody else"); }
    SUBCASE("a header that the broker would overwrite") { bad.headers.emplace_back("x-death", "never"); }
    SUBCASE("a body of more than 16 MiB") { bad.body.assign(16 * 1024 * 1024 + 1, 'x'); }

    auto const receipts = publish(*publisher, batch({message_for(service, "a"), bad, message_for(service, "b")}));
    REQUIRE(receipts.size() == 3);
    CHECK(receipts[0].status == publish_status::confirmed);
    CHECK(receipts[1].status == publish_status::refused);
    CHECK(receipts[1].reason != "");
    CHECK(receipts[2].status == publish_status::confirmed);
    CHECK(collect_ids(*subscription, 2) == std::set<std::string>{"a", "b"});
    CHECK(publisher->available());
}

TEST_CASE_TEMPLATE_DEFINE("a delivery comes again until it is acked", World, transport_acks)
{
    World world;
    auto const service = world.service();
    auto subscription = world.transport().subscribe(service, 200);
    auto const publisher = world.transport().open_publisher();

    SUBCASE("what was not acked comes again, marked as redelivered, when the subscription ends")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
        auto const first = collect(*subscription, 3);
        REQUIRE(first.size() == 3);
        subscription->ack(first[1].tag);
        subscription.reset();

        subscription = world.transport().subscribe(service, 200);
        auto const again = collect(*subscription, 2);
        REQUIRE(again.size() == 2);
        CHECK(std::set{again[0].message.id, again[1].message.id} == std::set<std::string>{"m0", "m2"});
        CHECK(again[0].redelivered);
        CHECK(again[1].redelivered);
        CHECK_FALSE(again[0].given_up);
    }
    SUBCASE("what was acked does not, even if the subscription ends right after")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 150))));
        ack_all(*subscription, collect(*subscription, 150));
        subscription.reset();
        subscription = world.transport().subscribe(service, 200);
        CHECK(nothing_comes(*subscription));
    }
    SUBCASE("acks may come in any order and from any thread")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 100))));
        auto const deliveries = collect(*subscription, 100);
        REQUIRE(deliveries.size() == 100);
        std::thread odd{[&] { for (std::size_t i = 1; i < 100; i += 2) subscription->ack(deliveries[i].tag); }};
        for (std::size_t i = 100; i >= 2; i -= 2) subscription->ack(deliveries[i - 2].tag);
        odd.join();
        subscription.reset();
        subscription = world.transport().subscribe(service, 200);
        CHECK(nothing_comes(*subscription));
    }
    SUBCASE("an ack that comes twice, or for what nobody delivered, is harmless")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 2))));
        auto const deliveries = collect(*subscription, 2);
        REQUIRE(deliveries.size() == 2);
        auto unknown = deliveries[0].tag;
        unknown.number += 1'000'000;
        for (auto const tag : {deliveries[0].tag, deliveries[0].tag, unknown, ports::delivery_tag{}}) subscription->ack(tag);
        subscription->requeue(unknown);
        subscription->requeue(deliveries[0].tag);

        REQUIRE(all_confirmed(publish(*publisher, batch({message_for(service, "next")}))));
        auto const next = collect(*subscription, 1);
        REQUIRE(next.size() == 1);
        CHECK(next[0].message.id == "next");  // so nothing was delivered anew
        CHECK(subscription->available());
    }
    SUBCASE("what is put back comes again, and only that")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
        auto const first = collect(*subscription, 3);
        REQUIRE(first.size() == 3);
        subscription->requeue(first[1].tag);
        auto const again = collect(*subscription, 1);
        REQUIRE(again.size() == 1);
        CHECK(again[0].message.id == "m1");
        CHECK(again[0].redelivered);
        CHECK(nothing_comes(*subscription));
    }
}

TEST_CASE_TEMPLATE_DEFINE("take waits for the first delivery and for no other", World, transport_taking)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 3);
    auto const publisher = world.transport().open_publisher();

    SUBCASE("it returns with what is there though more could be taken")
    {
        REQUIRE(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        auto const before = clock::now();
        CHECK(subscription->take(3, patience).size() == 1);
        CHECK(clock::now() - before < patience / 2);
    }
    SUBCASE("it returns with nothing when its time is over")
    {
        CHECK(subscription->take(3, 0ms).empty());
        CHECK(subscription->take(3, 50ms).empty());
    }
    SUBCASE("it wakes up for what comes while it waits")
    {
        std::size_t taken = 0;
        std::thread taker{[&] { taken = subscription->take(3, patience).size(); }};
        REQUIRE(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        taker.join();
        CHECK(taken == 1);
    }
    SUBCASE("it takes no more than asked for, and leaves the rest to the next")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
        CHECK(subscription->take(1, patience).size() == 1);
        CHECK(subscription->take(1, patience).size() == 1);
        CHECK(subscription->take(1, patience).size() == 1);
    }
    SUBCASE("no more than the prefetch are out, and an ack makes room for one more")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 5))));
        auto const out = collect(*subscription, 3);
        REQUIRE(out.size() == 3);
        CHECK(nothing_comes(*subscription));
        subscription->ack(out[2].tag);
        CHECK(collect(*subscription, 1).size() == 1);
        CHECK(nothing_comes(*subscription));
    }
}

TEST_CASE_TEMPLATE_DEFINE("a subscription that was stopped hands out nothing more", World, transport_stopping)
{
    World world;
    auto const service = world.service();
    auto stopped = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    SUBCASE("what it had not taken goes to another, and its acks still count")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 5))));
        auto const taken = collect(*stopped, 2);
        REQUIRE(taken.size() == 2);
        stopped->stop();
        CHECK(stopped->take(10, patience).empty());
        CHECK_FALSE(stopped->available());
        CHECK(stopped->trouble() != "");

        auto other = world.transport().subscribe(service, 10);
        CHECK(collect_ids(*other, 3) == std::set<std::string>{"m2", "m3", "m4"});
        ack_all(*stopped, taken);
        stopped.reset();
        CHECK(nothing_comes(*other));
    }
    SUBCASE("nor what is published later")
    {
        stopped->stop();
        stopped->stop();
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
        CHECK(stopped->take(10, short_while).empty());
        stopped.reset();
        CHECK(collect_ids(*world.transport().subscribe(service, 10), 3).size() == 3);
    }
    SUBCASE("and whoever waits in take is woken up")
    {
        auto const before = clock::now();
        std::thread taker{[&] { CHECK(stopped->take(10, patience).empty()); }};
        stopped->stop();
        taker.join();
        CHECK(clock::now() - before < patience / 2);
    }
}

TEST_CASE_TEMPLATE_DEFINE("two subscriptions of one service share its deliveries", World, transport_sharing)
{
    World world;
    auto const service = world.service();
    auto const one = world.transport().subscribe(service, 10);
    auto const other = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 20))));
    std::multiset<std::string> ids;
    for (auto const* subscription : {&one, &other})
        for (auto const& delivery : collect(**subscription, 10)) ids.insert(delivery.message.id);
    CHECK(ids.size() == 20);
    CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == 20);
}

TEST_CASE_TEMPLATE_DEFINE("an outage of the broker costs nothing but time", World, transport_outage)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 10);
    auto const publisher = world.transport().open_publisher();

    SUBCASE("publisher and subscription say so, and come back by themselves")
    {
        world.go_down();
        CHECK(eventually([&] { return !publisher->available(); }));
        CHECK(publisher->trouble() != "");
        CHECK(eventually([&] { return !subscription->available(); }));
        CHECK(subscription->trouble() != "");
        CHECK(subscription->take(1, 0ms).empty());

        world.come_back();
        CHECK(eventually([&] { return publisher->available(); }));
        CHECK(publisher->trouble() == "");
        CHECK(eventually([&] { return subscription->available(); }));
        CHECK(subscription->trouble() == "");
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        CHECK(collect(*subscription, 1).size() == 1);
    }
    SUBCASE("what is published meanwhile is unresolved, with a reason, at once")
    {
        world.go_down();
        auto const before = clock::now();
        auto const receipts = publish(*publisher, numbered(service, 3));
        CHECK(clock::now() - before < patience / 2);
        REQUIRE(receipts.size() == 3);
        for (auto const& one : receipts) {
            CHECK(one.status == publish_status::unresolved);
            CHECK(one.reason != "");
        }
    }
    SUBCASE("what was delivered before comes again, and an ack for the old delivery is harmless")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 2))));
        auto const before = collect(*subscription, 2);
        REQUIRE(before.size() == 2);
        world.go_down();
        CHECK(eventually([&] { return !subscription->available(); }));
        subscription->ack(before[0].tag);
        world.come_back();

        auto const again = collect(*subscription, 2);
        REQUIRE(again.size() == 2);
        CHECK(again[0].redelivered);
        ack_all(*subscription, before);
        for (auto const& one : before) subscription->requeue(one.tag);
        CHECK(nothing_comes(*subscription));
        ack_all(*subscription, again);
        CHECK(nothing_comes(*subscription));
        CHECK(subscription->available());
    }
    SUBCASE("whoever begins during an outage starts when it is over")
    {
        world.go_down();
        auto const late = world.transport().subscribe(service, 1);
        auto const late_publisher = world.transport().open_publisher();
        CHECK_FALSE(late->available());
        CHECK_FALSE(late_publisher->available());
        world.come_back();
        CHECK(eventually([&] { return late->available() && late_publisher->available(); }));
    }
    SUBCASE("a subscription may end during one")
    {
        world.go_down();
        world.transport().subscribe(service, 1).reset();
        world.come_back();
    }
}

TEST_CASE_TEMPLATE_DEFINE("a message that comes back too often is delivered as given up", World, transport_giving_up)
{
    World world;
    auto const service = world.service();
    auto const subscription = world.transport().subscribe(service, 1);
    auto const publisher = world.transport().open_publisher();

    auto const sent = message_for(service);
    REQUIRE(all_confirmed(publish(*publisher, batch({sent}))));
    int put_back = 0;
    for (; put_back < 100; ++put_back) {
        auto const deliveries = collect(*subscription, 1);
        REQUIRE(deliveries.size() == 1);
        auto const& delivery = deliveries[0];
        CHECK(delivery.message.headers == sent.headers);
        CHECK(delivery.message.body == sent.body);
        CHECK(delivery.problem == "");
        if (delivery.given_up) {
            CHECK(delivery.message.destination == service);
            subscription->ack(delivery.tag);
            break;
        }
        subscription->requeue(delivery.tag);
    }
    CHECK(put_back == 51);
    CHECK(nothing_comes(*subscription));
}

}  // namespace skald::test
