// Exchanges that are not Skald's own: where replies go, and where messages for handlers come from.
//
// Needs what transport_rabbitmq_operator.hpp says.
#include "core/envelope.hpp"
#include "transport_rabbitmq_operator.hpp"

using namespace skald::test;

namespace {

/// A broker user of its own, who may write to these.
class limited_user
{
public:
    explicit limited_user(private_vhost const& vhost) : vhost_{vhost} { REQUIRE(control("add_user " + name_ + " x")); }
    ~limited_user() { control("delete_user " + name_); }
    void may_write(std::string const& pattern) const
    {
        REQUIRE(control("set_permissions -p " + vhost_.name() + ' ' + name_ + " '.*' '" + pattern + "' '.*'"));
    }
    skald::rabbitmq::address where() const
    {
        auto made = vhost_.where();
        made.user = name_;
        made.password = "x";
        return made;
    }

private:
    private_vhost const& vhost_;
    std::string name_{random_name("limited-")};
};

skald::core::message reply_to(std::string queue, std::string id = "r")
{
    auto m = message_for(std::move(queue), std::move(id));
    m.headers.emplace_back("skald-exchange", "");
    return m;
}

}  // namespace

TEST_CASE("replies that a user may not send are set aside, and all else goes through, until the user may")
{
    private_vhost vhost;
    limited_user const user{vhost};
    user.may_write("^skald.*");
    rabbitmq_fixture fixture{user.where()};
    auto options = fixture.options();
    options.barred = {10ms, 10ms};  // every reply is a try
    skald::rabbitmq::rabbitmq_transport transport{options, fixture.log()};
    auto const service = fixture.service();
    auto const subscription = transport.subscribe({service, 100});
    auto const publisher = transport.open_publisher();
    auto const queue = random_name("answers-");
    operator_hands{vhost.where()}.declare_queue(queue);

    for (int round = 0; round < 3; ++round) {
        auto const id = std::to_string(round);
        // What was sent before a reply has its answer when the broker closes the channel over it: a try goes alone.
        CHECK(wait_until([&] { return publisher->available(); }));
        auto const receipts = publish(*publisher, batch({message_for(service, "a" + id), reply_to(queue)}));
        if (round > 0) CHECK(receipts[0].status == publish_status::confirmed);
        CHECK(receipts[1].status == publish_status::barred);
        CHECK_MESSAGE(receipts[1].reason.find("amq.default") != std::string::npos, receipts[1].reason);
        CHECK(receipts[1].reason.find("set_permissions") != std::string::npos);
        CHECK(publish_until_answered(*publisher, batch({message_for(service, "b" + id)})) ==
              std::vector{publish_status::confirmed});
    }
    user.may_write("^(skald.*|amq[.]default)$");
    CHECK(wait_until([&] {
        return publish_until_answered(*publisher, batch({reply_to(queue)})) == std::vector{publish_status::confirmed};
    }));
    CHECK(publish_until_answered(*publisher, batch({reply_to("no-" + queue)})) ==
          std::vector{publish_status::returned});
    CHECK(operator_hands{vhost.where()}.messages_in(queue) == 1);
}

TEST_CASE("a reply to a consumer instead of a queue is confirmed, and gets there")
{
    rabbitmq_fixture fixture;
    auto const publisher = fixture.transport().open_publisher();
    operator_hands client;
    constexpr auto pseudo_queue = "amq.rabbitmq.reply-to";
    amqp_basic_consume(client.raw(), 1, amqp_cstring_bytes(pseudo_queue), amqp_empty_bytes, 0, /*no_ack*/ 1, 0,
                       amqp_empty_table);
    auto const service = fixture.service();
    auto const subscription = fixture.transport().subscribe({service, 1});
    amqp_basic_properties_t asks{};
    asks._flags = AMQP_BASIC_REPLY_TO_FLAG;
    asks.reply_to = amqp_cstring_bytes(pseudo_queue);
    client.publish(skald::rabbitmq::queue_name(service), asks, "{}");
    auto const request = collect(*subscription, 1);
    REQUIRE(request.size() == 1);
    auto const to = skald::core::find_header(request[0].message.headers, "skald-reply-to");
    REQUIRE(to);
    CHECK(publish(*publisher, batch({reply_to(std::string{*to})})).front().status == publish_status::confirmed);
    amqp_envelope_t envelope{};
    timeval const longest{20, 0};
    REQUIRE(amqp_consume_message(client.raw(), &envelope, &longest, 0).reply_type == AMQP_RESPONSE_NORMAL);
    CHECK(skald::rabbitmq::view(envelope.message.body) == message_for("").body);
    amqp_destroy_envelope(&envelope);
}

TEST_CASE("what a message says of its own key counts if it came over Skald's exchange, also after it was dead-lettered")
{
    private_vhost vhost;
    rabbitmq_fixture fixture{vhost.where()};
    auto const service = fixture.service();
    operator_hands hands{vhost.where()};
    auto const own = service + ".on.hear", queue = "skald." + own;
    auto const subscribe = [&] {
        return fixture.transport().subscribe({service, 10, {}, {{"hear", 10, {{"k", "elsewhere", "direct"}}}}});
    };
    auto const send = [&](char const* exchange, char const* key) {
        auto header = skald::rabbitmq::argument("skald-message-key", "forged");
        amqp_basic_properties_t p{};
        p._flags = AMQP_BASIC_HEADERS_FLAG;
        p.headers = {1, &header};
        amqp_basic_publish(hands.raw(), 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(key), 0, 0, &p,
                           skald::rabbitmq::bytes(std::string_view{exchange}));
    };
    // The exchanges of those that were taken and still have the key.
    auto const with_key = [](skald::ports::subscription& from, std::size_t count) {
        std::string exchanges;
        // Of the parked queue one comes at a time.
        for (std::size_t n = 0; n < count; ++n) {
            auto const all = collect(from, 1);
            REQUIRE(all.size() == 1);
            CHECK(all[0].handler == "hear");
            if (skald::core::find_header(all[0].message.headers, "skald-message-key")) exchanges += all[0].message.body;
            from.ack(all[0].tag);
        }
        return exchanges;
    };
    {
        auto const subscription = subscribe();
        send("skald", own.c_str());
        send("elsewhere", "k");
        CHECK(with_key(*subscription, 2) == "skald");
        subscription->stop();
    }
    send("skald", own.c_str());
    send("elsewhere", "k");
    CHECK(wait_until([&] { return hands.messages_in(queue) == 2; }));
    hands.reject_all(queue, 2);
    CHECK(wait_until([&] { return hands.messages_in(skald::rabbitmq::parked_queue_name(service)) == 2; }));
    CHECK(with_key(*subscribe(), 2) == "skald");
}
