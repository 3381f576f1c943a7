// rabbitmq-c behind one include: its headers moved between 0.11 (Debian 12) and 0.15 (Debian 13).
//
// Outside this folder only tools/duplicator and tools/conform include it, and none has rabbitmq-c in any other way.
#pragma once

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif

#include <sys/time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

namespace skald::rabbitmq {

struct connection_closer
{
    void operator()(amqp_connection_state_t state) const noexcept { amqp_destroy_connection(state); }
};

using connection_handle = std::unique_ptr<amqp_connection_state_t_, connection_closer>;

/// A view in rabbitmq-c's form. The library never writes through it, though the type would allow it.
inline amqp_bytes_t bytes(std::string_view text)
{
    return {text.size(), const_cast<char*>(text.data())};
}

inline std::string_view view(amqp_bytes_t raw)
{
    return raw.len == 0 ? std::string_view{} : std::string_view{static_cast<char const*>(raw.bytes), raw.len};
}

/// Negative durations count as zero: rabbitmq-c rejects them.
inline timeval to_timeval(std::chrono::milliseconds duration)
{
    auto const count = duration.count() < 0 ? 0 : duration.count();
    return {static_cast<time_t>(count / 1000), static_cast<suseconds_t>(count % 1000 * 1000)};
}

/// An argument of a queue, a binding or a consumer. Lifetime: that of its strings.
inline amqp_table_entry_t argument(char const* name, char const* value)
{
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = amqp_cstring_bytes(value);
    return entry;
}

inline amqp_table_entry_t argument(char const* name, std::int64_t value)
{
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_I64;
    entry.value.value.i64 = value;
    return entry;
}

/// The adapter needs only one channel per connection.
inline constexpr amqp_channel_t the_channel = 1;

}  // namespace skald::rabbitmq
