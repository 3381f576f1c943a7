// A RabbitMQ for tests: the broker of AMQP_URL behind a proxy, service names that nobody else has, and an operator's
// hands on the queues. What a test made on the broker is deleted when its fixture ends.
#pragma once

#include "support/recording_logger.hpp"
#include "support/tcp_proxy.hpp"
#include "transport_helpers.hpp"

#include "rabbitmq/connection.hpp"
#include "rabbitmq/rabbitmq_transport.hpp"
#include "rabbitmq/topology.hpp"
#include "support/required.hpp"

#include <random>
#include <span>

namespace skald::test {

inline rabbitmq::address test_broker()
{
    return rabbitmq::parse_url(required("AMQP_URL"));
}

inline std::string url_of(rabbitmq::address const& where)
{
    auto const vhost = where.vhost == "/" ? "" : "/" + where.vhost;
    return "amqp://" + where.user + ":" + where.password + "@" + describe(where.endpoints.front()) + vhost;
}

inline std::string random_name(std::string const& prefix)
{
    return prefix + std::to_string(std::random_device{}()) + std::to_string(std::random_device{}());
}

/// A connection of its own, to do by hand what the adapter never would.
class operator_hands
{
public:
    explicit operator_hands(rabbitmq::address const& where = test_broker())
        : connection_{{where, "skald-test/operator", 0, patience}, interrupter_}
    {}

    amqp_connection_state_t raw() { return connection_.raw(); }

    /// Of the broker; 0 if it does not say.
    int major_version()
    {
        auto const* const said = amqp_get_server_properties(raw());
        for (auto const& one : std::span{said->entries, static_cast<std::size_t>(said->num_entries)})
            if (rabbitmq::view(one.key) == "version")
                return std::stoi(std::string{rabbitmq::view(one.value.value.bytes)});
        return 0;
    }

    void declare_queue(std::string const& name, amqp_table_t arguments = amqp_empty_table)
    {
        amqp_queue_declare(raw(), 1, rabbitmq::bytes(name), 0, 1, 0, 0, arguments);
        connection_.check_last("declaring");
    }
    void bind(std::string const& queue, std::string const& service)
    {
        amqp_queue_bind(raw(), 1, rabbitmq::bytes(queue), rabbitmq::bytes(rabbitmq::exchange_name),
                        rabbitmq::bytes(service), amqp_empty_table);
        connection_.check_last("binding");
    }
    void unbind(std::string const& queue, std::string const& service)
    {
        amqp_queue_unbind(raw(), 1, rabbitmq::bytes(queue), rabbitmq::bytes(rabbitmq::exchange_name),
                          rabbitmq::bytes(service), amqp_empty_table);
        connection_.check_last("unbinding");
    }
    void delete_queue(std::string const& name)
    {
        amqp_queue_delete(raw(), 1, rabbitmq::bytes(name), 0, 0);
        connection_.check_last("deleting");
    }
    /// Takes that many messages out of the queue, and rejects each for good.
    void reject_all(std::string const& queue, int count)
    {
        for (int i = 0; i < count; ++i) {
            auto const got = amqp_basic_get(raw(), 1, rabbitmq::bytes(queue), 0);
            connection_.check_last("getting");
            REQUIRE(got.reply.id == AMQP_BASIC_GET_OK_METHOD);
            auto const tag = static_cast<amqp_basic_get_ok_t const*>(got.reply.decoded)->delivery_tag;
            amqp_message_t message{};
            REQUIRE(amqp_read_message(raw(), 1, &message, 0).reply_type == AMQP_RESPONSE_NORMAL);
            amqp_destroy_message(&message);
            amqp_basic_reject(raw(), 1, tag, /*requeue*/ 0);
        }
    }
    void delete_exchange(std::string const& name)
    {
        amqp_exchange_delete(raw(), 1, rabbitmq::bytes(name), 0);
        connection_.check_last("deleting");
    }
    void delete_service(std::string const& service)
    {
        delete_queue(rabbitmq::queue_name(service));
        delete_queue(rabbitmq::parked_queue_name(service));
        for (auto const* handler : handlers_of_claims) delete_queue(rabbitmq::handler_queue_name(service, handler));
    }
    std::uint32_t messages_in(std::string const& name)
    {
        auto const* const answer = amqp_queue_declare(raw(), 1, rabbitmq::bytes(name), 1, 1, 0, 0, amqp_empty_table);
        connection_.check_last("looking");
        return answer->message_count;
    }
    /// To the queue itself, so that nothing of the adapter's is involved.
    void publish(std::string const& queue, amqp_basic_properties_t const& properties, std::string_view body)
    {
        connection_.check(amqp_basic_publish(raw(), 1, amqp_empty_bytes, rabbitmq::bytes(queue), 0, 0, &properties,
                                             rabbitmq::bytes(body)),
                          "publishing");
    }

private:
    sockets::socket_interrupter interrupter_;
    rabbitmq::connection connection_;
};

class rabbitmq_fixture
{
public:
    explicit rabbitmq_fixture(rabbitmq::address broker = test_broker()) : broker_{std::move(broker)} {}
    ~rabbitmq_fixture()
    {
        transport_.reset();
        try {
            operator_hands hands{broker_};
            for (auto const& one : services_) hands.delete_service(one);
        }
        catch (std::exception const& error) {
            MESSAGE("queues of a test are left on the broker: ", error.what());
        }
    }
    rabbitmq_fixture(rabbitmq_fixture const&) = delete;
    rabbitmq_fixture& operator=(rabbitmq_fixture const&) = delete;

    ports::transport& transport()
    {
        if (!transport_) transport_ = std::make_unique<rabbitmq::rabbitmq_transport>(options(), log_);
        return *transport_;
    }

    /// As the transport has them; for a test that needs others.
    rabbitmq::options options() const
    {
        auto where = broker_;
        where.endpoints = {{"127.0.0.1", proxy_.port()}};
        rabbitmq::options made;
        made.url = url_of(where);
        made.connection_name = "skald-test";
        made.reconnect = {10ms, 200ms};
        return made;
    }

    std::string service()
    {
        services_.push_back(random_name("test-"));
        return services_.back();
    }

    void go_down() { proxy_.cut(); }
    void come_back() { proxy_.restore(); }

    tcp_proxy& proxy() { return proxy_; }
    recording_logger& log() { return log_; }
    rabbitmq::address const& broker() const { return broker_; }

private:
    rabbitmq::address broker_;
    tcp_proxy proxy_{broker_.endpoints.front().host, broker_.endpoints.front().port};
    recording_logger log_;
    std::vector<std::string> services_;
    std::unique_ptr<rabbitmq::rabbitmq_transport> transport_;
};

}  // namespace skald::test
