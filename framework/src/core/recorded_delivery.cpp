#include "core/recorded_delivery.hpp"

#include "core/identity.hpp"
#include "core/text.hpp"

#include <skald/detail/data.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace skald::core {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;  // people read the lines too: what a delivery is comes before its contents

constexpr std::size_t name_bytes_max = 255;               // of an AMQP short string
constexpr std::size_t body_bytes_max = 16 * 1024 * 1024;  // what a transport accepts

std::string as_text(std::string const& bytes)
{
    return storable_text(bytes, header_bytes_max);
}

ordered_json headers_of(message const& m)
{
    auto headers = ordered_json::object();
    for (auto const& [name, value] : m.headers) headers[as_text(name)] = as_text(value);
    return headers;
}

ordered_json record_of(recorded_parking const& p)
{
    if (!p.record) return nullptr;
    return {{"status", p.record->status}, {"attempts", p.record->attempts}, {"snoozes", p.record->snoozes}};
}

// --- Reading. Errors are thrown as a sentence that continues "line 3: ". ---

[[noreturn]] void refuse(std::string const& why)
{
    throw data_error{why};
}

json parse_line(std::string_view line)
{
    constexpr auto remedy = "one delivery is one line: `jq -c .` makes one of an object, `jq -c '.[]'` of a list";
    json parsed;
    try {
        parsed = detail::parse_checked(line);
    }
    catch (data_error const& error) {
        refuse(fmt::format("it is not JSON that Skald reads ({}); {}", storable_text(error.what(), 200), remedy));
    }
    if (!parsed.is_object()) refuse(fmt::format("it is JSON, but no object ({}); {}", parsed.type_name(), remedy));
    return parsed;
}

void check_format(json const& line)
{
    auto const it = line.find("format");
    if (it == line.end() || !it->is_string())
        refuse("it has no `format`: only what `skald parked export` has printed can be read");
    if (auto const& format = it->get_ref<std::string const&>(); format != recording_format)
        refuse(fmt::format(
            "its `format` is {}, and this version of Skald reads {}: export it again with this version, or use "
            "the version that wrote it",
            format, recording_format));
}

json const& member(json const& line, char const* name)
{
    auto const it = line.find(name);
    if (it == line.end()) refuse(fmt::format("`{}` is missing: export it again with `skald parked export`", name));
    return *it;
}

std::string text_of(json const& value, std::string const& name, std::size_t bytes_max)
{
    if (!value.is_string())
        refuse(fmt::format("`{}` is {}, and must be text: write it in quotation marks", name,
                           value.is_null() ? "null" : fmt::format("of the type {}", value.type_name())));
    auto text = value.get<std::string>();
    if (text.size() > bytes_max)
        refuse(fmt::format("`{}` has {} bytes; at most {} can be sent", name, text.size(), bytes_max));
    return text;
}

std::string name_in(json const& line, char const* name)
{
    return text_of(member(line, name), name, name_bytes_max);
}

header_list headers_in(json const& line)
{
    auto const& object = member(line, "headers");
    if (!object.is_object()) refuse("`headers` must be an object of names and texts");
    header_list headers;
    for (auto const& [name, value] : object.items()) {
        if (name.empty() || name.size() > name_bytes_max)
            refuse(fmt::format("the name of a header in `headers` has {} bytes; it may have 1 to {}", name.size(),
                               name_bytes_max));
        headers.emplace_back(name, text_of(value, "headers." + name, header_bytes_max));
    }
    return headers;
}

std::string body_in(json const& line)
{
    bool const is_text = line.contains("body");
    if (is_text == line.contains("body_base64"))
        refuse(
            is_text
                ? "`body` and `body_base64` are both there: keep the one that is meant"
                : "`body` is missing, or `body_base64` for bytes that are no text: export it again with `skald parked "
                  "export`");
    if (is_text) return text_of(line.at("body"), "body", body_bytes_max);
    auto const encoded = text_of(line.at("body_base64"), "body_base64", body_bytes_max / 3 * 4 + 4);
    auto bytes = from_base64(encoded);
    if (!bytes) refuse("`body_base64` is not base64 (RFC 4648 with padding, in one line): `base64 -w0` writes it");
    return std::move(*bytes);
}

message read_line(std::string_view text)
{
    auto const line = parse_line(text);
    check_format(line);
    message m;
    m.destination = name_in(line, "destination");
    auto const on = m.destination.find(".on.");
    if (!is_name(m.destination.substr(0, on)) || (on != std::string::npos && !is_name(m.destination.substr(on + 4))))
        refuse(fmt::format(
            "`destination` is '{}', which is no service's name: a small letter, then small letters, digits and "
            "dashes, at most 48; with `.on.` and another such name it is a message handler's",
            m.destination));
    m.id = name_in(line, "message_id");
    m.type = name_in(line, "type");
    m.content_type = name_in(line, "content_type");
    m.headers = headers_in(line);
    m.body = body_in(line);
    return m;
}

bool is_blank(std::string_view line)
{
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

ordered_json line_of(message const& m)
{
    ordered_json line{
        {"format", recording_format}, {"destination", as_text(m.destination)},   {"message_id", as_text(m.id)},
        {"type", as_text(m.type)},    {"content_type", as_text(m.content_type)}, {"headers", headers_of(m)}};
    if (is_storable_text(m.body)) line["body"] = m.body;
    else line["body_base64"] = to_base64(m.body);
    return line;
}

}  // namespace

std::string write_recorded(message const& m)
{
    return line_of(m).dump();
}

std::string write_recorded(message const& m, recorded_parking const& p)
{
    auto line = line_of(m);
    line["parked"] = {{"id", p.id},
                      {"reason", p.reason},
                      {"error", as_text(p.error)},
                      {"attempts", p.attempts},
                      {"parked_at", p.parked_at},
                      {"scope", as_text(p.scope)},
                      {"key", as_text(p.key)},
                      {"step", as_text(p.step)},
                      {"record", record_of(p)}};
    return line.dump();
}

std::vector<message> read_recorded(std::string_view lines)
{
    std::vector<message> all;
    for (std::size_t number = 1; !lines.empty(); ++number) {
        auto const end = std::min(lines.find('\n'), lines.size());
        auto const line = lines.substr(0, end);
        lines.remove_prefix(std::min(end + 1, lines.size()));
        if (is_blank(line)) continue;
        try {
            all.push_back(read_line(line));
        }
        catch (data_error const& error) {
            throw data_error{fmt::format("recorded deliveries, line {}: {}", number, error.what())};
        }
    }
    if (all.empty())
        throw data_error{"recorded deliveries: there is none; `skald parked export` prints one a line, "
                         "SKALD_RECORD_DELIVERIES writes them"};
    return all;
}

}  // namespace skald::core
