#include "transports/message_limits.hpp"

#include <string_view>
#include <utility>

namespace skald::transports {
namespace {

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t headers_bytes_max = 128 * 1024 - 2048;
constexpr std::size_t body_bytes_max = 16 * 1024 * 1024;

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
    if (needed > headers_bytes_max) return "its headers need " + std::to_string(needed) + " bytes";
    if (message.body.size() > body_bytes_max) return "its body has " + std::to_string(message.body.size()) + " bytes";
    return {};
}

}  // namespace skald::transports
