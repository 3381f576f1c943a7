#include "transports/message_limits.hpp"

#include "core/foreign_message.hpp"
#include "core/text.hpp"

#include <string_view>
#include <utility>

namespace skald::transports {
namespace {

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t body_bytes_max = 16 * 1024 * 1024;

// What core::write_again() adds: a key, a scope, an id and a type, and two counts.
constexpr std::size_t added_bytes_max = 1024;

std::string too_long(std::string_view field, std::string const& value)
{
    if (value.size() <= name_bytes_max) return {};
    return "its " + std::string{field} + " has " + std::to_string(value.size()) + " bytes, at most 255 are allowed";
}

std::string refused_header(std::string const& name)
{
    if (name.empty()) return "a header has no name";
    if (core::is_brokers_own_header(name)) return "the header `" + name + "` belongs to the broker";
    return too_long("header's name", name);
}

}  // namespace

std::string why_never_sent(core::message const& message)
{
    if (message.destination.empty()) return "it has no destination";
    for (auto const& [field, value] :
         {std::pair{"destination", &message.destination}, std::pair{"id", &message.id},
          std::pair{"type", &message.type}, std::pair{"content type", &message.content_type}})
        if (auto why = too_long(field, *value); !why.empty()) return why;

    std::size_t needed = message.id.size() + message.type.size() + message.content_type.size();
    for (auto const& [name, value] : message.headers) {
        if (auto why = refused_header(name); !why.empty()) return why;
        needed += name.size() + value.size() + 6;
    }
    if (needed > core::header_bytes_max) return "its headers need " + std::to_string(needed) + " bytes";
    if (message.body.size() > body_bytes_max) return "its body has " + std::to_string(message.body.size()) + " bytes";
    return {};
}

std::string why_never_again(core::message const& received)
{
    auto const is_made_up = [&](std::string_view says) {
        return core::find_header(received.headers, says).has_value();
    };
    core::message again{received.destination,
                        is_made_up(core::header::message_id) ? "" : received.id,
                        is_made_up(core::header::message_type) ? "" : received.type,
                        received.content_type,
                        {},
                        {}};
    // The outbox has text, in which another byte is four. What Skald added before, it does not add again.
    for (auto const& [name, value] : received.headers)
        if (!core::is_added_by_skald(name))
            again.headers.emplace_back(core::storable_text(name, 4 * name.size()),
                                       core::storable_text(value, 4 * value.size()));
    again.headers.emplace_back("added", std::string(added_bytes_max, ' '));
    auto const reply_to = core::find_header(received.headers, core::header::reply_to).value_or("");
    auto why = too_long("reply-to", std::string{reply_to});
    return why.empty() ? why_never_sent(again) : why;
}

}  // namespace skald::transports
