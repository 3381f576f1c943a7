#include "postgres/header_json.hpp"

#include "core/text.hpp"

#include <nlohmann/json.hpp>

namespace skald::postgres {
namespace {

// ISO 8859-1, in UTF-8.
std::string widened(std::string_view bytes)
{
    std::string text;
    for (char const c : bytes) {
        auto const byte = static_cast<unsigned char>(c);
        if (byte < 0x80) text += c;
        else text.append({static_cast<char>(0xc0 | (byte >> 6)), static_cast<char>(0x80 | (byte & 0x3f))});
    }
    return text;
}

std::string narrowed(std::string_view text)
{
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto const byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x80 || i + 1 == text.size()) bytes += text[i];
        else bytes += static_cast<char>((byte << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
    return bytes;
}

}  // namespace

std::string write_headers(core::header_list const& headers)
{
    auto object = nlohmann::json::object();
    for (auto const& [name, value] : headers)
        object[core::storable_text(name)] = core::storable_text(value, core::header_bytes_max);
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

std::string write_fields(core::header_list const& fields)
{
    auto array = nlohmann::json::array();
    for (auto const& [name, value] : fields) array.push_back({widened(name), widened(value)});
    return array.dump();
}

core::header_list read_fields(std::string_view json)
{
    auto const parsed = nlohmann::json::parse(json);
    if (parsed.is_object()) return read_headers(json);
    core::header_list fields;
    for (auto const& pair : parsed)
        fields.emplace_back(narrowed(pair.at(0).get<std::string>()), narrowed(pair.at(1).get<std::string>()));
    return fields;
}

}  // namespace skald::postgres
