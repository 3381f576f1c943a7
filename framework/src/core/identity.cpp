#include "core/identity.hpp"

#include "core/text.hpp"

#include <skald/definition.hpp>

#include <algorithm>

namespace skald::core {

bool is_scope(std::string_view text)
{
    return text.size() <= scope_bytes_max && is_storable_text(text);
}

bool is_key(std::string_view text)
{
    return !text.empty() && text.size() <= key_bytes_max &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool is_name(std::string_view text)
{
    return detail::is_name(text);
}

std::string derived_key::text() const
{
    return key + ':' + guarded_step();
}

std::string derived_key::guarded_step() const
{
    return direction == direction::back ? step + std::string{compensate_suffix} : step;
}

std::optional<derived_key> parse_derived_key(std::string_view text)
{
    auto const colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    auto const key = text.substr(0, colon);
    auto step = text.substr(colon + 1);
    auto way = direction::forward;
    if (step.ends_with(compensate_suffix)) {
        step.remove_suffix(compensate_suffix.size());
        way = direction::back;
    }
    if (!is_key(key) || !is_name(step)) return std::nullopt;
    return derived_key{std::string{key}, std::string{step}, way};
}

}  // namespace skald::core
