// write_attributes(), declared in skald/attribute.hpp.
#include "core/text.hpp"

#include <skald/attribute.hpp>
#include <skald/errors.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace skald::detail {

constexpr std::size_t attribute_bytes_max = 256;

std::string write_attributes(std::span<attribute_value const> all)
{
    auto object = nlohmann::json::object();
    for (auto const& [name, value] : all) {
        if (!value || value->empty()) continue;
        if (value->size() > attribute_bytes_max)
            throw data_error{fmt::format("the attribute {} has {} bytes, and at most {} are allowed: name a member "
                                         "that is an id, and no text of any length",
                                         name, value->size(), attribute_bytes_max)};
        if (!core::is_storable_text(*value))
            throw data_error{fmt::format("the attribute {} is not UTF-8, or has a NUL", name)};
        object[std::string{name}] = *value;
    }
    return object.empty() ? std::string{} : object.dump();
}

}  // namespace skald::detail
