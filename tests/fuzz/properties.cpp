// The properties of an AMQP message, as they come off the wire: whoever may publish decides what they are.
#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/envelope.hpp"
#include "core/foreign_message.hpp"
#include "core/message.hpp"
#include "demand.hpp"
#include "rabbitmq/properties.hpp"

using namespace skald;
using skald::fuzz::demand;

namespace {

struct pool
{
    pool() { init_amqp_pool(&memory, 4096); }
    ~pool() { empty_amqp_pool(&memory); }
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;

    amqp_pool_t memory{};
};

// What is no header on the wire: two are made of properties, and nobody can send them as headers.
bool is_property(std::string_view name)
{
    using namespace core::header;
    return name == reply_to || name == correlation_id || name == exchange;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    pool from;
    void* decoded = nullptr;
    auto const bytes = rabbitmq::bytes(fuzz::text_of(data, size));
    if (amqp_decode_properties(AMQP_BASIC_CLASS, &from.memory, bytes, &decoded) < 0) return 0;
    auto const& properties = *static_cast<amqp_basic_properties_t const*>(decoded);
    auto const read = rabbitmq::decode_properties(properties);
    auto const& headers = read.message.headers;
    demand(std::ranges::none_of(headers, [](auto const& one) { return core::is_brokers_own_header(one.first); }),
           "the broker's own headers are no part of a message");
    auto const of_properties = std::ranges::count_if(headers, [](auto const& one) { return is_property(one.first); });
    auto const has = [&](amqp_flags_t flag) { return (properties._flags & flag) != 0 ? 1 : 0; };
    demand(of_properties == has(AMQP_BASIC_REPLY_TO_FLAG) + has(AMQP_BASIC_CORRELATION_ID_FLAG),
           "what is said of a reply is said by properties alone");
    if ((properties._flags & AMQP_BASIC_HEADERS_FLAG) == 0) return 0;
    auto const& table = properties.headers;
    auto const own = std::count_if(table.entries, table.entries + table.num_entries, [](auto const& one) {
        return core::is_brokers_own_header(rabbitmq::view(one.key));
    });
    auto const others = headers.size() - static_cast<std::size_t>(of_properties);
    demand(others + static_cast<std::size_t>(own) <= static_cast<std::size_t>(table.num_entries),
           "no header is made up");
    auto const sent = std::count_if(table.entries, table.entries + table.num_entries,
                                    [](auto const& one) { return core::is_skalds_header(rabbitmq::view(one.key)); });
    auto const kept = std::ranges::count_if(headers, [](auto const& one) { return core::is_skalds_header(one.first); });
    demand((sent == kept) == read.problem.empty(), "a header of Skald's that can't be read is a problem, and no other");
    return 0;
}
