// What every transport must keep, the publisher's half. See transport_conformance.hpp.
#pragma once

#include "transport_helpers.hpp"

#include <thread>

namespace skald::test {

TEST_CASE_TEMPLATE_DEFINE("what is confirmed is delivered", Fixture, transport_delivery)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    CHECK(publisher->available());
    CHECK(publisher->last_error() == "");
    CHECK(subscription->available());
    CHECK(subscription->last_error() == "");

    SUBCASE("to the service it is for, once, and not marked as redelivered or given up")
    {
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        auto const deliveries = collect(*subscription, 1);
        REQUIRE(deliveries.size() == 1);
        CHECK(deliveries[0].message.destination == service);
        CHECK(deliveries[0].returns == 0);
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
        auto const other = fixture.transport().subscribe({fixture.service(), 10});
        CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        CHECK(collect(*subscription, 1).size() == 1);
        CHECK(nothing_comes(*other));
    }
    SUBCASE("also after its service's only subscription has gone for a while")
    {
        auto const absent = fixture.service();
        fixture.transport().subscribe({absent, 10}).reset();
        CHECK(all_confirmed(publish(*publisher, batch({message_for(absent)}))));
        CHECK(collect(*fixture.transport().subscribe({absent, 10}), 1).size() == 1);
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

struct named_message
{
    char const* name;
    core::message message;
};

/// What a transport might cut, join, drop or take for something else.
inline std::vector<named_message> unusual_messages(std::string const& service)
{
    std::string every_byte;
    for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
    std::string mebibyte;
    for (int i = 0; i < 4096; ++i) mebibyte += every_byte;

    auto const with_body = [&](std::string body) {
        auto m = message_for(service);
        m.body = std::move(body);
        return m;
    };
    auto const with_headers = [&](core::header_list headers) {
        auto m = message_for(service);
        m.headers = std::move(headers);
        return m;
    };
    auto other_type = message_for(service);
    other_type.content_type = "application/octet-stream";
    return {{"an ordinary message", message_for(service)},
            {"an empty body", with_body("")},
            {"a body of one zero byte", with_body(std::string(1, '\0'))},
            {"a body of every byte there is", with_body(every_byte)},
            {"a body of one mebibyte", with_body(mebibyte)},
            {"a body as large as a frame", with_body(mebibyte.substr(0, 131'072 - 8))},
            {"a body a byte larger than a frame", with_body(mebibyte.substr(0, 131'072 - 7))},
            {"no headers", with_headers({})},
            {"nothing but a destination", {service, "", "", "", {}, ""}},
            {"another content type", other_type},
            {"the longest id, type, content type and header name there may be",
             {service,
              std::string(255, 'i'),
              std::string(255, 't'),
              std::string(255, 'c'),
              {{std::string(255, 'h'), "value"}},
              "{}"}},
            {"headers of any bytes, empty and long ones",
             with_headers(
                 {{"every-byte", every_byte}, {"empty", ""}, {"a b", "c\r\nd"}, {"long", std::string(100'000, 'x')}})}};
}

TEST_CASE_TEMPLATE_DEFINE("id, type, content type, headers and body arrive byte for byte", Fixture, transport_bytes)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    for (auto const& [name, sent] : unusual_messages(service)) {
        INFO(name);
        REQUIRE(all_confirmed(publish(*publisher, batch({sent}))));
        auto const deliveries = collect(*subscription, 1);
        REQUIRE(deliveries.size() == 1);
        auto const& received = deliveries[0].message;
        CHECK(received.destination == sent.destination);
        CHECK(received.id == sent.id);
        CHECK(received.type == sent.type);
        CHECK(received.content_type == sent.content_type);
        CHECK(in_order_of_name(received.headers) == in_order_of_name(sent.headers));  // RabbitMQ 4 keeps no order
        CHECK((received.body == sent.body));  // not printed if it fails: it may be large
        CHECK(deliveries[0].problem == "");
        ack_all(*subscription, deliveries);
    }
}

TEST_CASE_TEMPLATE_DEFINE("each row gets exactly one receipt", Fixture, transport_receipts)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const nobody = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();

    SUBCASE("none for an empty batch")
    {
        CHECK(publish(*publisher, {}).empty());
    }
    SUBCASE("under the rows' own numbers, whatever they are")
    {
        auto const message = message_for(service);
        std::vector<ports::outgoing> const rows{{7, message}, {-3, message}, {7, message}};
        publisher->send(rows, patience);
        std::vector<ports::receipt> receipts;
        std::multiset<std::int64_t> seen;
        while (receipts.size() < 3)
            for (auto& one : publisher->collect(100ms)) {
                seen.insert(one.row);
                receipts.push_back(std::move(one));
            }
        CHECK(seen == std::multiset<std::int64_t>{-3, 7, 7});
        CHECK(all_confirmed(receipts));
    }
    SUBCASE("a message that no queue is bound for is returned with a reason, its neighbours are confirmed")
    {
        auto const rows = batch({message_for(service, "a"), message_for(nobody, "b"), message_for(service, "c")});
        auto const receipts = publish(*publisher, rows);
        REQUIRE(receipts.size() == 3);
        CHECK(receipts[0].status == publish_status::confirmed);
        CHECK(receipts[0].reason == "");
        CHECK(receipts[1].status == publish_status::returned);
        CHECK(receipts[1].reason.find(nobody) != std::string::npos);
        CHECK(receipts[2].status == publish_status::confirmed);
        CHECK(collect_ids(*subscription, 2) == std::set<std::string>{"a", "c"});
    }
    SUBCASE("also where one batch is sent before the answers to another have come")
    {
        auto const first = numbered(service, 30, "a"), second = numbered(service, 20, "b");
        publisher->send(first, patience);
        publisher->send(second, patience);
        std::size_t confirmed = 0;
        while (confirmed < 50)
            for (auto const& one : publisher->collect(100ms)) {
                REQUIRE(one.status == publish_status::confirmed);
                ++confirmed;
            }
        CHECK(publisher->collect(0ms).empty());
        CHECK(collect_ids(*subscription, 50).size() == 50);
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
        auto const late = fixture.transport().subscribe({nobody, 1});
        CHECK(all_confirmed(publish(*publisher, batch({message_for(nobody)}))));
    }
}

TEST_CASE_TEMPLATE_DEFINE("what can never be sent is refused, its neighbours are confirmed", Fixture,
                          transport_refusals)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();

    std::string const too_long(256, 'x');
    auto bad = message_for(service, "bad");
    SUBCASE("an id of 256 bytes")
    {
        bad.id = too_long;
    }
    SUBCASE("a type of 256 bytes")
    {
        bad.type = too_long;
    }
    SUBCASE("a content type of 256 bytes")
    {
        bad.content_type = too_long;
    }
    SUBCASE("a destination of 256 bytes")
    {
        bad.destination = too_long;
    }
    SUBCASE("no destination")
    {
        bad.destination.clear();
    }
    SUBCASE("a header's name of 256 bytes")
    {
        bad.headers.emplace_back(too_long, "value");
    }
    SUBCASE("a header without a name")
    {
        bad.headers.emplace_back("", "value");
    }
    SUBCASE("one header larger than a frame")
    {
        bad.headers.emplace_back("large", std::string(140'000, 'x'));
    }
    SUBCASE("many headers larger than a frame together")
    {
        for (int i = 0; i < 1'000; ++i) bad.headers.emplace_back("h" + std::to_string(i), std::string(140, 'x'));
    }
    SUBCASE("a header that the broker would obey")
    {
        bad.headers.emplace_back("CC", "somebody else");
    }
    SUBCASE("a header that the broker would overwrite")
    {
        bad.headers.emplace_back("x-death", "never");
    }
    SUBCASE("a body of more than 16 MiB")
    {
        bad.body.assign(16 * 1024 * 1024 + 1, 'x');
    }

    auto const receipts = publish(*publisher, batch({message_for(service, "a"), bad, message_for(service, "b")}));
    REQUIRE(receipts.size() == 3);
    CHECK(receipts[0].status == publish_status::confirmed);
    CHECK(receipts[1].status == publish_status::refused);
    CHECK(receipts[1].reason != "");
    CHECK(receipts[2].status == publish_status::confirmed);
    CHECK(collect_ids(*subscription, 2) == std::set<std::string>{"a", "b"});
    CHECK(publisher->available());
}

TEST_CASE_TEMPLATE_DEFINE("an exchange that takes nothing bars its own messages and no others", Fixture,
                          transport_barred)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    auto const to_nowhere = [&](std::string id) {
        auto m = message_for(service, std::move(id));
        m.headers.emplace_back("skald-exchange", "no-exchange-" + service);
        return m;
    };
    constexpr auto confirmed = publish_status::confirmed, barred = publish_status::barred;
    CHECK(publish_until_answered(*publisher,
                                 batch({message_for(service, "a"), to_nowhere("x"), message_for(service, "b")})) ==
          std::vector{confirmed, barred, confirmed});
    // It is known now, and costs the others nothing.
    auto const receipts = publish(
        *publisher, batch({message_for(service, "c"), to_nowhere("y"), to_nowhere("z"), message_for(service, "d")}));
    REQUIRE(receipts.size() == 4);
    for (int n : {0, 3}) CHECK(receipts[static_cast<std::size_t>(n)].status == confirmed);
    for (int n : {1, 2}) {
        CHECK(receipts[static_cast<std::size_t>(n)].status == barred);
        CHECK(receipts[static_cast<std::size_t>(n)].reason.find("no-exchange-" + service) != std::string::npos);
    }
    CHECK(publisher->available());
    CHECK(collect_ids(*subscription, 4) == std::set<std::string>{"a", "b", "c", "d"});
}

TEST_CASE_TEMPLATE_DEFINE("a reply to nowhere waits for nobody, and its neighbours are confirmed", Fixture,
                          transport_replies)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 10});
    auto const publisher = fixture.transport().open_publisher();
    std::string nowhere = "no-queue-" + service;
    SUBCASE("whose name a queue may have") {}
    SUBCASE("whose name is no topic's")
    {
        nowhere += "/of nobody's";
    }
    auto reply = message_for(nowhere, "reply");
    reply.headers.emplace_back("skald-exchange", "");
    auto const receipts = publish(*publisher, batch({message_for(service, "a"), reply, message_for(service, "b")}));
    REQUIRE(receipts.size() == 3);
    for (int n : {0, 2}) CHECK(receipts[static_cast<std::size_t>(n)].status == publish_status::confirmed);
    // The memory double has them all, for its test to see.
    bool const is_caught = requires
    {
        Fixture::catches_replies;
    };
    CHECK(receipts[1].status == (is_caught ? publish_status::confirmed : publish_status::returned));
    CHECK(collect_ids(*subscription, 2) == std::set<std::string>{"a", "b"});
}

TEST_CASE_TEMPLATE_DEFINE("a message comes once to each handler that is bound to its key, and to no other", Fixture,
                          transport_handlers)
{
    Fixture fixture;
    auto const service = fixture.service();
    auto const both = "both-" + service, second = "second-" + service;
    auto const subscription = fixture.transport().subscribe(
        {service, 10, {}, {{"one", 10, {{both}}}, {"two", 10, {{both}, {second}, {service}}}}});
    auto const publisher = fixture.transport().open_publisher();
    auto const come = [&](std::string const& destination, std::size_t count) {
        CHECK(all_confirmed(publish(*publisher, batch({message_for(destination)}))));
        std::multiset<std::string> to;
        for (auto const& one : collect(*subscription, count)) {
            to.insert(one.handler);
            CHECK(one.message.destination == (one.handler.empty() ? service : service + ".on." + one.handler));
            subscription->ack(one.tag);
        }
        CHECK(nothing_comes(*subscription));
        return to;
    };
    using names = std::multiset<std::string>;
    CHECK(come(both, 2) == names{"one", "two"});
    CHECK(come(second, 1) == names{"two"});
    CHECK(come(service, 2) == names{"", "two"});
    CHECK(come(service + ".on.one", 1) == names{"one"});
}

TEST_CASE_TEMPLATE_DEFINE("a key that begins with a service's name and a dot goes to all that are bound to it", Fixture,
                          transport_dotted_keys)
{
    Fixture fixture;
    auto const orders = fixture.service(), billing = fixture.service();
    auto const created = orders + ".created";
    auto const of_orders = fixture.transport().subscribe({orders, 10, {}, {{"one", 10, {{created}}}}});
    auto const of_billing = fixture.transport().subscribe({billing, 10, {}, {{"one", 10, {{created}}}}});
    CHECK(all_confirmed(publish(*fixture.transport().open_publisher(), batch({message_for(created)}))));
    for (auto const* subscription : {&of_orders, &of_billing}) {
        auto const came = collect(**subscription, 1);
        REQUIRE(came.size() == 1);
        CHECK(came[0].handler == "one");
        ack_all(**subscription, came);
    }
}

}  // namespace skald::test
