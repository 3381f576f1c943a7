#include "postgres/header_json.hpp"

#include "core/text.hpp"

#include <nlohmann/json.hpp>

namespace skald::postgres {

std::string write_headers(core::header_list const& headers)
{
    auto object = nlohmann::json::object();
    for (auto const& [name, value] : headers) object[core::storable_text(name)] = core::storable_text(value, 65'536);
    return object.dump();
}

core::header_list read_headers(std::string_view object)
{
    core::header_list headers;
    auto const parsed = nlohmann::json::parse(object);
    for (auto const& [name, value] : parsed.items())
        headers.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    return headers;
}

}  // namespace skald::postgres
