#include "core/foreign_message.hpp"

#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "core/uuid.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>
#include <utility>

namespace skald::core {
namespace {

using nlohmann::json;

constexpr std::string_view cloud_events_media = "application/cloudevents";
constexpr std::string_view cloud_events_json = "application/cloudevents+json";
// CloudEvents' binding to AMQP has the first two, its binding to HTTP and Kafka the others; bridges pass them on.
constexpr std::array<std::string_view, 4> attribute_prefixes{"cloudEvents:", "cloudEvents_", "ce-", "ce_"};

/// Why there is no key.
struct no_key_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// What a message carries, and the identity that its format gives it.
struct content
{
    std::string payload;
    std::string id;
    std::string why_no_id;
};

// Neither case nor parameters matter (RFC 9110, 8.3.1).
std::string media_type(std::string_view content_type)
{
    std::string media{content_type.substr(0, content_type.find(';'))};
    while (media.ends_with(' ') || media.ends_with('\t')) media.pop_back();
    std::ranges::transform(media, media.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return media;
}

// `attribute` returns the text of the attribute of that name, or nothing. What it throws is data_error. An id is unique
// for its source only; an array keeps the two apart, whatever is in them.
template <class Attribute>
std::string cloud_event_id(Attribute attribute)
{
    auto const required = [&](char const* name) {
        auto const text = attribute(name);
        if (!text || text->empty() || !is_storable_text(*text))
            throw data_error{std::string{"it is no CloudEvent: its attribute `"} + name + "` is missing, or no text"};
        return std::string{*text};
    };
    if (auto const version = required("specversion"); version != "1.0")
        throw data_error{"it is a CloudEvent of version '" + version + "': only 1.0 is read"};
    required("type");
    return json::array({required("source"), required("id")}).dump();
}

// Written again, so that an event has the same payload whichever way and however often it is sent.
std::string as_written(std::string_view data)
{
    return data.empty() ? "null" : detail::parse_checked(data).dump();
}

content read_structured(message const& m)
{
    auto const event = detail::parse_checked(m.body);
    if (!event.is_object()) throw data_error{"it is no CloudEvent: its body is no JSON object"};
    auto id = cloud_event_id([&](char const* name) -> std::optional<std::string> {
        auto const it = event.find(name);
        return it != event.end() && it->is_string() ? std::optional{it->get<std::string>()} : std::nullopt;
    });
    if (auto const it = event.find("data_base64"); it != event.end()) {
        auto decoded = it->is_string() ? from_base64(it->get<std::string>()) : std::nullopt;
        if (!decoded) throw data_error{"the member `data_base64` of the CloudEvent is no base64"};
        return {as_written(*decoded), std::move(id), {}};
    }
    auto const it = event.find("data");
    return {it == event.end() ? "null" : it->dump(), std::move(id), {}};
}

std::optional<std::string_view> attribute(message const& m, std::string_view name)
{
    for (auto const prefix : attribute_prefixes)
        if (auto const value = find_header(m.headers, std::string{prefix}.append(name))) return value;
    return std::nullopt;
}

content read_cloud_event(message const& m)
{
    auto const media = media_type(m.content_type);
    if (media == cloud_events_json) return read_structured(m);
    if (media.starts_with(cloud_events_media))
        throw data_error{"it is a CloudEvent in a form that is not read: " + m.content_type};
    if (!attribute(m, "specversion"))
        throw data_error{"it is no CloudEvent: neither is its content type application/cloudevents+json, nor has it a "
                         "header cloudEvents:specversion"};
    auto id = cloud_event_id([&m](char const* name) { return attribute(m, name); });
    return {as_written(m.body), std::move(id), {}};
}

// The router sends the outbox row's payload. Connect's JSON converter puts a schema around it unless told not to, and
// writes a payload column of text as a JSON string.
content read_debezium(message const& m)
{
    auto body = detail::parse_checked(m.body);
    bool const has_schema = body.is_object() && body.size() == 2 && body.contains("schema") &&
                            body.contains("payload") && (body.at("schema").is_object() || body.at("schema").is_null());
    if (has_schema) body = json(body.at("payload"));
    auto const id = find_header(m.headers, "id");
    content read{m.body, std::string{id.value_or(m.id)}, "neither has it a header `id`, nor a message_id"};
    if (body.is_string()) read.payload = body.get<std::string>();
    else if (has_schema) read.payload = body.dump();
    return read;
}

content read_content(message const& m, message_format format)
{
    switch (format) {
    case message_format::json: return {m.body, m.id, "it has no message_id"};
    case message_format::cloud_events: return read_cloud_event(m);
    case message_format::debezium: return read_debezium(m);
    }
    throw std::logic_error{"every format is handled"};
}

json const& at_pointer(json const& payload, std::string const& pointer)
try {
    auto const& value = payload.at(json::json_pointer{pointer});
    if (!value.is_string() && !value.is_number_integer())
        throw no_key_error{"its member " + pointer + " is neither text nor an integer"};
    return value;
}
catch (json::exception const&) {
    throw no_key_error{"it has no member " + pointer};
}

std::string text_of(json const& value)
{
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string of_members(json const& payload, std::vector<std::string> const& pointers)
{
    if (pointers.size() == 1) return text_of(at_pointer(payload, pointers.front()));
    auto all = json::array();
    for (auto const& one : pointers) all.push_back(at_pointer(payload, one));
    return all.dump();
}

/// Looks for keys in one message, which is parsed at most once.
class finder
{
public:
    finder(message const& m, content const& read) : message_{m}, read_{read} {}

    std::string find(message_key const& key)
    {
        switch (key.by) {
        case message_key::kind::id:
            if (read_.id.empty()) throw no_key_error{read_.why_no_id};
            return read_.id;
        case message_key::kind::header:
            if (auto const value = find_header(message_.headers, key.names.front()); value && !value->empty())
                return std::string{*value};
            throw no_key_error{"it has no header " + key.names.front()};
        case message_key::kind::members: return of_members(payload(), key.names);
        case message_key::kind::uuid_v5: return make_uuid_v5(key.space, of_members(payload(), key.names));
        case message_key::kind::computed: return compute(key);
        }
        throw std::logic_error{"every kind of key is handled"};
    }

private:
    json const& payload()
    {
        if (parsed_.is_discarded()) parsed_ = detail::parse_checked(read_.payload);
        return parsed_;
    }

    std::string compute(message_key const& key) const
    try {
        return key.make(as_received(message_, read_.payload));
    }
    catch (std::exception const& error) {
        throw no_key_error{std::string{"the function that makes its key failed: "} + error.what()};
    }
    catch (...) {
        throw no_key_error{"the function that makes its key threw something that is no std::exception"};
    }

    message const& message_;
    content const& read_;
    json parsed_ = json(json::value_t::discarded);
};

std::string as_key(std::string const& found)
{
    if (found.empty()) throw no_key_error{"its key is empty"};
    return is_key(found) ? found : "sha256:" + to_hex(fingerprint_of(found));
}

// A header of that name that is somebody else's means nothing here.
int count_in(message const& m, std::string_view header, int if_none)
{
    auto const text = find_header(m.headers, header).value_or("");
    int count = if_none;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    bool const is_count = error == std::errc{} && end == text.data() + text.size() && count >= if_none;
    return is_count && count <= fencing_token_max ? count : if_none;
}

void set_header(header_list& headers, std::string_view name, std::string value)
{
    std::erase_if(headers, [&](auto const& one) { return one.first == name; });
    headers.emplace_back(name, std::move(value));
}

}  // namespace

std::string handler_destination(std::string_view service, std::string_view handler)
{
    return std::string{service}.append(".on.").append(handler);
}

std::string_view handler_of(std::string_view destination, std::string_view service)
{
    if (!destination.starts_with(service)) return {};
    destination.remove_prefix(service.size());
    if (!destination.starts_with(".on.")) return {};
    return destination.substr(4);
}

std::optional<saga_id> identity_in(message const& m)
{
    auto const key = find_header(m.headers, header::message_key).value_or("");
    auto const scope = find_header(m.headers, header::message_scope).value_or("");
    if (!is_key(key) || !is_scope(scope)) return std::nullopt;
    return saga_id{std::string{scope}, std::string{key}};
}

bool is_kept_by_outbox(message const& m)
{
    if (identity_in(m)) return true;
    std::set<std::string_view> names;
    return is_storable_text(m.id) && is_storable_text(m.type) && is_storable_text(m.content_type) &&
           std::ranges::all_of(m.headers, [&names](auto const& one) {
               return is_storable_text(one.first) && is_storable_text(one.second) && names.insert(one.first).second;
           });
}

std::variant<accepted_message, refused_message> read_foreign(message const& received, message_options const& rules)
try {
    auto read = read_content(received, rules.format);
    finder in{received, read};
    accepted_message accepted;
    if (auto const known = find_header(received.headers, header::message_key))
        accepted.identity = {std::string{find_header(received.headers, header::message_scope).value_or("")},
                             as_key(std::string{*known})};
    else accepted.identity = {rules.scope ? in.find(*rules.scope) : "", as_key(in.find(rules.key))};
    if (!is_scope(accepted.identity.scope))
        return refused_message{"malformed", "its scope has more than 64 bytes, or is no UTF-8"};
    accepted.trace = valid_trace(find_header(received.headers, header::traceparent).value_or(""),
                                 find_header(received.headers, header::tracestate).value_or(""));
    accepted.attempt = count_in(received, header::attempt, 1);
    accepted.snoozes = count_in(received, header::snoozes, 0);
    accepted.payload = std::move(read.payload);
    return accepted;
}
catch (no_key_error const& error) {
    return refused_message{"no_key", error.what()};
}
catch (data_error const& error) {
    return refused_message{"malformed", error.what()};
}

void drop_words_of_ours(message& m)
{
    constexpr std::array ours{header::message_key, header::message_scope, header::message_id, header::message_type};
    std::erase_if(m.headers, [&](auto const& one) { return std::ranges::find(ours, one.first) != ours.end(); });
}

void drop_headers_that_act(message& m)
{
    std::erase_if(m.headers,
                  [](auto const& one) { return one.first == header::exchange || is_brokers_own_header(one.first); });
}

void restore_properties(message& m)
{
    auto const take = [&m](std::string_view name, std::string& into) {
        auto const given = find_header(m.headers, name);
        if (!given) return;
        into = *given;
        std::erase_if(m.headers, [&](auto const& one) { return one.first == name; });
    };
    take(header::message_id, m.id);
    take(header::message_type, m.type);
}

received_message as_received(message const& m, std::string payload)
{
    received_message all{m.id, m.type, m.content_type, m.headers, m.body, std::move(payload)};
    return all;
}

bool is_added_by_skald(std::string_view name)
{
    constexpr std::array added{header::message_key, header::message_scope, header::message_id, header::message_type,
                               header::attempt,     header::snoozes,       header::waits_since};
    return std::ranges::find(added, name) != added.end();
}

message write_unchanged(message const& received, std::string destination, std::string const& id)
{
    auto again = received;
    again.destination = std::move(destination);
    if (again.id.empty()) {
        again.id = id;
        set_header(again.headers, header::message_id, "");
    }
    if (again.type.empty()) {
        again.type = "message";
        set_header(again.headers, header::message_type, "");
    }
    return again;
}

message write_again(message const& received, std::string destination, saga_id const& identity,
                    std::string const& derived_key, int attempt, int snoozes)
{
    auto again = write_unchanged(received, std::move(destination), derived_key);
    set_header(again.headers, header::message_key, identity.key);
    set_header(again.headers, header::message_scope, identity.scope);
    set_header(again.headers, header::attempt, std::to_string(attempt));
    set_header(again.headers, header::snoozes, std::to_string(snoozes));
    return again;
}

bool is_reply(message const& m)
{
    return find_header(m.headers, header::exchange) == "";
}

message write_reply(message const& request, std::string_view handler, std::string const& derived_key, std::string body)
{
    message reply;
    reply.destination = find_header(request.headers, header::reply_to).value_or("");
    reply.id = derived_key + ".reply";
    reply.type = std::string{handler} + ".reply";
    auto const correlation = find_header(request.headers, header::correlation_id).value_or(request.id);
    reply.headers = {{std::string{header::exchange}, ""},
                     {std::string{header::correlation_id}, std::string{correlation}}};
    reply.body = std::move(body);
    return reply;
}

}  // namespace skald::core

namespace skald {

std::string uuid_v5(std::string_view space, std::string_view name)
{
    if (!core::is_uuid(space)) throw std::invalid_argument{"'" + std::string{space} + "' is not a UUID with dashes"};
    return core::make_uuid_v5(space, name);
}

}  // namespace skald
