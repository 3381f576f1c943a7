// What every transport must keep, the subscription's half and outages. See transport_conformance.hpp.
#pragma once

#include "transport_helpers.hpp"

#include <thread>

namespace skald::test {

TEST_CASE_TEMPLATE_DEFINE("a delivery comes again until it is acked", Fixture, transport_acks)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto subscription = fixture.transport().subscribe({service, 200});
    auto const publisher = fixture.transport().open_publisher();

    SUBCASE("what was not acked comes again, marked as redelivered, when the subscription ends")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 3))));
        auto const first = collect(*subscription, 3);
        REQUIRE(first.size() == 3);
        subscription->ack(first[1].tag);
        subscription.reset();

        subscription = fixture.transport().subscribe({service, 200});
        auto const again = collect(*subscription, 2);
        REQUIRE(again.size() == 2);
        CHECK(std::set{again[0].message.id, again[1].message.id} == std::set<std::string>{"m0", "m2"});
        CHECK(again[0].returns == 1);
        CHECK(again[1].returns == 1);
        CHECK_FALSE(again[0].given_up);
    }
    SUBCASE("what was acked does not, even if the subscription ends right after")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 150))));
        ack_all(*subscription, collect(*subscription, 150));
        subscription.reset();
        subscription = fixture.transport().subscribe({service, 200});
        CHECK(nothing_comes(*subscription));
    }
    SUBCASE("acks may come in any order and from any thread")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 100))));
        auto const deliveries = collect(*subscription, 100);
        REQUIRE(deliveries.size() == 100);
        std::thread odd{[&] {
            for (std::size_t i = 1; i < 100; i += 2) subscription->ack(deliveries[i].tag);
        }};
        for (std::size_t i = 100; i >= 2; i -= 2) subscription->ack(deliveries[i - 2].tag);
        odd.join();
        subscription.reset();
        subscription = fixture.transport().subscribe({service, 200});
        CHECK(nothing_comes(*subscription));
    }
    SUBCASE("an ack that comes twice, or for what nobody delivered, is harmless")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 2))));
        auto const deliveries = collect(*subscription, 2);
        REQUIRE(deliveries.size() == 2);
        auto unknown = deliveries[0].tag;
        unknown.number += 1'000'000;
        for (auto const tag : {deliveries[0].tag, deliveries[0].tag, unknown, ports::delivery_tag{}})
            subscription->ack(tag);
        subscription->requeue(unknown);
        subscription->requeue(deliveries[0].tag);

        REQUIRE(all_confirmed(publish(*publisher, batch({message_for(service, "next")}))));
        auto const next = collect(*subscription, 1);
        REQUIRE(next.size() == 1);
        CHECK(next[0].message.id == "next");  // so nothing was delivered anew
        CHECK(subscription->available());
    }
}

TEST_CASE_TEMPLATE_DEFINE("what is put back comes again, and only that", Fixture, transport_requeues)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 200});
    REQUIRE(all_confirmed(publish(*fixture.transport().open_publisher(), numbered(service, 3))));
    auto const first = collect(*subscription, 3);
    REQUIRE(first.size() == 3);
    subscription->requeue(first[1].tag);
    auto const again = collect(*subscription, 1);
    REQUIRE(again.size() == 1);
    CHECK(again[0].message.id == "m1");
    CHECK(again[0].returns == 1);
    CHECK(nothing_comes(*subscription));
}

TEST_CASE_TEMPLATE_DEFINE("take waits for the first delivery and for no other", Fixture, transport_taking)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 3});
    auto const publisher = fixture.transport().open_publisher();

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

TEST_CASE_TEMPLATE_DEFINE("a subscription that was stopped hands out nothing more", Fixture, transport_stopping)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto stopped = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();

    SUBCASE("what it had not taken goes to another, and its acks still count")
    {
        REQUIRE(all_confirmed(publish(*publisher, numbered(service, 5))));
        auto const taken = collect(*stopped, 2);
        REQUIRE(taken.size() == 2);
        stopped->stop();
        CHECK(stopped->take(10, patience).empty());
        CHECK_FALSE(stopped->available());
        CHECK(stopped->last_error() != "");

        auto other = fixture.transport().subscribe({service, 10});
        bool const by_message = fixture.transport().can().divides_by_message;
        if (!by_message) ack_all(*stopped, taken);  // after a while they would come to the other, too
        CHECK(collect_ids(*other, 3) == std::set<std::string>{"m2", "m3", "m4"});
        if (by_message) ack_all(*stopped, taken);
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
        CHECK(collect_ids(*fixture.transport().subscribe({service, 10}), 3).size() == 3);
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

TEST_CASE_TEMPLATE_DEFINE("two subscriptions of one service share its deliveries", Fixture, transport_sharing)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const one = fixture.transport().subscribe({service, 10});
    auto const other = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();

    REQUIRE(all_confirmed(publish(*publisher, numbered(service, 20))));
    std::multiset<std::string> ids;
    if (fixture.transport().can().divides_by_message) {
        for (auto const* subscription : {&one, &other})
            for (auto const& delivery : collect(**subscription, 10)) ids.insert(delivery.message.id);
    }
    else {  // in whatever parts
        auto const until = clock::now() + patience;
        while (ids.size() < 20 && clock::now() < until)
            for (auto const* subscription : {&one, &other})
                for (auto const& delivery : (*subscription)->take(10, 50ms)) {
                    ids.insert(delivery.message.id);
                    (*subscription)->ack(delivery.tag);
                }
    }
    CHECK(ids.size() == 20);
    CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == 20);
}

TEST_CASE_TEMPLATE_DEFINE("an outage of the broker costs nothing but time", Fixture, transport_outage)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();

    SUBCASE("publisher and subscription say so, and come back by themselves")
    {
        fixture.go_down();
        CHECK(wait_until([&] { return !publisher->available(); }));
        CHECK(publisher->last_error() != "");
        CHECK(wait_until([&] { return !subscription->available(); }));
        CHECK(subscription->last_error() != "");
        CHECK(subscription->take(1, 0ms).empty());

        fixture.come_back();
        CHECK(wait_until([&] { return publisher->available(); }));
        CHECK(publisher->last_error() == "");
        CHECK(wait_until([&] { return subscription->available(); }));
        CHECK(subscription->last_error() == "");
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        CHECK(collect(*subscription, 1).size() == 1);
    }
    SUBCASE("what is published meanwhile is unresolved, with a reason, at once")
    {
        fixture.go_down();
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
        fixture.go_down();
        CHECK(wait_until([&] { return !subscription->available(); }));
        subscription->ack(before[0].tag);
        fixture.come_back();

        auto const again = collect(*subscription, 2);
        REQUIRE(again.size() == 2);
        CHECK(again[0].returns == 1);
        ack_all(*subscription, before);
        for (auto const& one : before) subscription->requeue(one.tag);
        CHECK(nothing_comes(*subscription));
        ack_all(*subscription, again);
        CHECK(nothing_comes(*subscription));
        CHECK(subscription->available());
    }
}

TEST_CASE_TEMPLATE_DEFINE("whoever comes or goes during an outage need not care", Fixture, transport_outage_meanwhile)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    fixture.go_down();

    SUBCASE("who begins starts when it is over")
    {
        auto const late = fixture.transport().subscribe({service, 1});
        auto const late_publisher = fixture.transport().open_publisher();
        CHECK_FALSE(late->available());
        CHECK_FALSE(late_publisher->available());
        fixture.come_back();
        CHECK(wait_until([&] { return late->available() && late_publisher->available(); }));
    }
    SUBCASE("a subscription that ends leaves everything to the others")
    {
        fixture.transport().subscribe({service, 1}).reset();
        fixture.come_back();
        CHECK(wait_until([&] { return subscription->available() && publisher->available(); }));
        CHECK(all_confirmed(publish(*publisher, numbered(service, 3))));
        CHECK(collect(*subscription, 3).size() == 3);
    }
}

TEST_CASE_TEMPLATE_DEFINE("a message that comes back too often is delivered as given up", Fixture, transport_giving_up)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 1});
    auto const publisher = fixture.transport().open_publisher();

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
