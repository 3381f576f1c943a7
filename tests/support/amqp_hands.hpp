// A test acting as an operator on a RabbitMQ, over rabbitmq-c alone: nothing of Skald's is involved.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_tcp_socket.h>
#endif

namespace skald::test {

inline std::string_view view(amqp_bytes_t bytes)
{
    return {static_cast<char const*>(bytes.bytes), bytes.len};
}

/// The bytes live as long as the process: properties only point at them.
inline amqp_bytes_t keep(std::string text)
{
    static std::mutex mutex;
    static std::deque<std::string> kept;
    std::lock_guard const lock{mutex};
    auto& stored = kept.emplace_back(std::move(text));
    return {stored.size(), stored.data()};
}

inline amqp_field_value_t text_field(std::string text)
{
    amqp_field_value_t field{};
    field.kind = AMQP_FIELD_KIND_UTF8;
    field.value.bytes = keep(std::move(text));
    return field;
}

/// A message with anything that AMQP can carry.
struct raw_message
{
    std::string destination;  // the service, from the routing key
    amqp_basic_properties_t properties{};
    std::vector<amqp_table_entry_t> headers;
    std::string body;

    void set_type(std::string text)
    {
        properties.type = keep(std::move(text));
        properties._flags |= AMQP_BASIC_TYPE_FLAG;
    }
    void set_id(std::string text)
    {
        properties.message_id = keep(std::move(text));
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
    }
    void remove(std::string_view name)
    {
        std::erase_if(headers, [&](auto const& entry) { return view(entry.key) == name; });
    }
    void add(std::string name, amqp_field_value_t value) { headers.push_back({keep(std::move(name)), value}); }
    void set(std::string const& name, amqp_field_value_t value)
    {
        remove(name);
        add(name, value);
    }
    void set(std::string const& name, std::string value) { set(name, text_field(std::move(value))); }
    std::string header(std::string_view name) const
    {
        for (auto const& entry : headers)
            if (view(entry.key) == name && entry.value.kind == AMQP_FIELD_KIND_UTF8)
                return std::string{view(entry.value.value.bytes)};
        return {};
    }
    std::string type() const { return std::string{view(properties.type)}; }
    std::string id() const { return std::string{view(properties.message_id)}; }
};

struct amqp_place
{
    std::string user{"guest"}, password{"guest"}, host{"127.0.0.1"}, vhost{"/"};
    int port{5672};

    explicit amqp_place(std::string const& url)
    {
        std::string copy = url;
        amqp_connection_info info{};
        amqp_default_connection_info(&info);
        if (amqp_parse_url(copy.data(), &info) != AMQP_STATUS_OK) throw std::runtime_error{"AMQP_URL can't be read"};
        user = info.user;
        password = info.password;
        host = info.host;
        vhost = info.vhost;
        port = info.port;
    }
    std::string url() const
    {
        return "amqp://" + user + ':' + password + '@' + host + ':' + std::to_string(port) +
               (vhost == "/" ? "" : '/' + vhost);
    }
};

/// Threads: one.
class amqp_hands
{
public:
    explicit amqp_hands(amqp_place const& where) : connection_{amqp_new_connection()}
    {
        auto* const socket = amqp_tcp_socket_new(connection_);
        timeval patience{10, 0};
        if (amqp_socket_open_noblock(socket, where.host.c_str(), where.port, &patience) != AMQP_STATUS_OK)
            fail("connecting to the broker");
        amqp_set_rpc_timeout(connection_, &rpc_patience);
        check(amqp_login(connection_, where.vhost.c_str(), 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN, where.user.c_str(),
                         where.password.c_str()),
              "logging in");
        amqp_channel_open(connection_, 1);
        check_last("opening a channel");
    }
    amqp_hands(amqp_hands const&) = delete;
    amqp_hands& operator=(amqp_hands const&) = delete;
    ~amqp_hands() { amqp_destroy_connection(connection_); }

    void delete_queue(std::string const& name)
    {
        amqp_queue_delete(connection_, 1, bytes(name), 0, 0);
        check_last("deleting a queue");
    }
    void delete_exchange(std::string const& name)
    {
        amqp_exchange_delete(connection_, 1, bytes(name), 0);
        check_last("deleting an exchange");
    }
    void declare_exchange(std::string const& name, char const* type = "direct")
    {
        amqp_exchange_declare(connection_, 1, bytes(name), amqp_cstring_bytes(type), 0, 1, 0, 0, amqp_empty_table);
        check_last("declaring an exchange");
    }
    void declare_queue(std::string const& name)
    {
        amqp_queue_declare(connection_, 1, bytes(name), 0, 1, 0, 0, amqp_empty_table);
        check_last("declaring a queue");
    }
    void bind(std::string const& queue, std::string const& exchange, std::string const& key)
    {
        amqp_queue_bind(connection_, 1, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
        check_last("binding");
    }
    void unbind(std::string const& queue, std::string const& exchange, std::string const& key)
    {
        amqp_queue_unbind(connection_, 1, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
        check_last("unbinding");
    }
    /// How many messages wait in it; those delivered to a consumer are not counted.
    std::uint32_t waiting_in(std::string const& queue)
    {
        auto const* const answer = amqp_queue_declare(connection_, 1, bytes(queue), 1, 1, 0, 0, amqp_empty_table);
        check_last("looking at a queue");
        return answer->message_count;
    }

    /// A queue of the test's own that gets a copy of every message to the services.
    void capture_everything()
    {
        declare_exchange("skald");
        delete_queue(capture_queue);
        declare_queue(capture_queue);
        for (auto const* key : {"orders", "payments", "shipping"}) bind(capture_queue, "skald", key);
    }
    /// What was captured since the last call.
    std::vector<raw_message> take_captured()
    {
        std::vector<raw_message> taken;
        while (auto next = get(capture_queue)) taken.push_back(std::move(*next));
        return taken;
    }

    void publish(std::string const& exchange, std::string const& key, raw_message message)
    {
        message.properties.headers = {static_cast<int>(message.headers.size()), message.headers.data()};
        if (!message.headers.empty()) message.properties._flags |= AMQP_BASIC_HEADERS_FLAG;
        amqp_bytes_t const body{message.body.size(), message.body.data()};
        if (amqp_basic_publish(connection_, 1, bytes(exchange), bytes(key), 0, 0, &message.properties, body) !=
            AMQP_STATUS_OK)
            fail("publishing");
    }
    /// The next message of a queue, which is acked.
    std::optional<raw_message> get(std::string const& queue)
    {
        check(amqp_basic_get(connection_, 1, bytes(queue), 1), "getting a message");
        auto const reply = amqp_get_rpc_reply(connection_);
        if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD) return std::nullopt;
        raw_message got;
        got.destination = view(static_cast<amqp_basic_get_ok_t*>(reply.reply.decoded)->routing_key);
        amqp_message_t message{};
        check(amqp_read_message(connection_, 1, &message, 0), "reading a message");
        copy(message, got);
        amqp_destroy_message(&message);
        amqp_maybe_release_buffers(connection_);
        return got;
    }

    /// Straight to the service's queue, so that a capture does not see it again.
    void send(raw_message const& message) { publish("", "skald." + message.destination, message); }

    /// Over the exchange to which the services publish.
    void send_to_all(raw_message const& message) { publish("skald", message.destination, message); }

    /// Takes one message with all its properties; false if there is none.
    template <class Look>
    bool look_at_next(std::string const& queue, Look const& look)
    {
        check(amqp_basic_get(connection_, 1, bytes(queue), 1), "getting a message");
        if (amqp_get_rpc_reply(connection_).reply.id != AMQP_BASIC_GET_OK_METHOD) return false;
        amqp_message_t message{};
        check(amqp_read_message(connection_, 1, &message, 0), "reading a message");
        look(message);
        amqp_destroy_message(&message);
        amqp_maybe_release_buffers(connection_);
        return true;
    }
    /// The message as this broker delivers it from a quorum queue, such as the services' are: RabbitMQ 4 delivers
    /// headers in a different order from the one they came in, and only one of two that have the same name.
    raw_message as_delivered(raw_message message)
    {
        message.destination = "e2e.probe";
        std::string const queue = "skald.e2e.probe";
        amqp_table_entry_t kind{amqp_cstring_bytes("x-queue-type"), text_field("quorum")};
        amqp_queue_declare(connection_, 1, bytes(queue), 0, 1, 0, 0, {1, &kind});
        check_last("declaring a quorum queue");
        send(message);
        expect_accepted();
        auto delivered = get(queue);
        for (int left = 100; !delivered && left > 0; --left) delivered = get(queue);
        delete_queue(queue);
        if (!delivered) fail("getting a message back");
        return *delivered;
    }
    /// Whether the broker has taken everything so far and has not closed the channel over it.
    void expect_accepted() { waiting_in("skald.orders"); }

private:
    static constexpr char const* capture_queue = "e2e.capture";
    static constexpr timeval rpc_patience{20, 0};

    static amqp_bytes_t bytes(std::string const& text) { return {text.size(), const_cast<char*>(text.data())}; }

    static void copy(amqp_message_t const& from, raw_message& to)
    {
        auto const& p = from.properties;
        if (p._flags & AMQP_BASIC_TYPE_FLAG) to.set_type(std::string{view(p.type)});
        if (p._flags & AMQP_BASIC_MESSAGE_ID_FLAG) to.set_id(std::string{view(p.message_id)});
        if (p._flags & AMQP_BASIC_CONTENT_TYPE_FLAG) {
            to.properties.content_type = keep(std::string{view(p.content_type)});
            to.properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        }
        if (p._flags & AMQP_BASIC_CORRELATION_ID_FLAG) {
            to.properties.correlation_id = keep(std::string{view(p.correlation_id)});
            to.properties._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
        }
        to.properties.delivery_mode = 2;
        to.properties._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
        for (int i = 0; i < p.headers.num_entries; ++i)
            to.add(std::string{view(p.headers.entries[i].key)},
                   text_field(std::string{view(p.headers.entries[i].value.value.bytes)}));
        to.body = view(from.body);
    }

    [[noreturn]] static void fail(std::string const& what) { throw std::runtime_error{what + " failed"}; }
    static void check(amqp_rpc_reply_t const& reply, std::string const& what)
    {
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
        if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
            throw std::runtime_error{
                what + ": " + std::string{view(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text)}};
        fail(what);
    }
    void check_last(std::string const& what) { check(amqp_get_rpc_reply(connection_), what); }

    amqp_connection_state_t connection_;
};

}  // namespace skald::test
