// Messages that belong to no saga, and what identifies them: an event of another team, a webhook that came over a
// broker, a command. service::on() takes a handler for them: skald/message_handler.hpp.
#pragma once

#include <skald/step_options.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald {

/// A message as it was received.
struct received_message
{
    std::string id;                                            // its message_id; empty: none
    std::string type;                                          // empty: none
    std::string content_type;                                  // likewise
    std::vector<std::pair<std::string, std::string>> headers;  // those with a text form, in the order received
    std::string body;                                          // as received
    std::string payload;  // the JSON that the handler gets: the body, or what it carries (message_format)

    /// The first header of that name.
    std::optional<std::string> header(std::string_view name) const
    {
        for (auto const& [header, value] : headers)
            if (header == name) return value;
        return std::nullopt;
    }
};

/// A UUID of version 5 (RFC 9562, 5.5): the same for the same namespace and name, wherever it is made.
/// Throws: std::invalid_argument if `space` is not a UUID in the form with dashes.
std::string uuid_v5(std::string_view space, std::string_view name);

/// What distinguishes one message from every other, and is the same each time it comes: the key under which its
/// handler runs once. Where it does not find one, the message is parked as `no_key`, and nothing runs.
///
/// A text of more than 180 bytes, or one that is not printable ASCII, is replaced by `sha256:` and its SHA-256.
class message_key
{
public:
    /// The identity that the format defines: of JSON the message_id, of a CloudEvent its source and id, of Debezium's
    /// the header `id`.
    message_key() = default;

    /// That header.
    static message_key header(std::string name) { return {kind::header, {std::move(name)}, {}}; }

    /// The values of these members of the payload, each a JSON pointer (RFC 6901) to text or an integer:
    /// `members({"/order", "/line"})`. Of several, the key is a JSON array of them.
    static message_key members(std::vector<std::string> pointers) { return {kind::members, std::move(pointers), {}}; }

    /// uuid_v5() of the namespace and what members() would give.
    static message_key uuid_v5(std::string space, std::vector<std::string> pointers)
    {
        return {kind::uuid_v5, std::move(pointers), std::move(space)};
    }

    /// What `make` returns; an empty text: none. It is called once for each delivery, and must be pure: no I/O, and the
    /// same key for the same message. Throws: it may; the message is parked with the reason then.
    static message_key computed(std::function<std::string(received_message const&)> make)
    {
        message_key key{kind::computed, {}, {}};
        key.make = std::move(make);
        return key;
    }

    /// For Skald: which of them it is.
    enum class kind { id, header, members, uuid_v5, computed };
    kind by{kind::id};                                           // of this one
    std::vector<std::string> names{};                            // the header, or the pointers
    std::string space{};                                         // the namespace
    std::function<std::string(received_message const&)> make{};  // of computed()

private:
    message_key(kind k, std::vector<std::string> n, std::string s) : by{k}, names{std::move(n)}, space{std::move(s)} {}
};

/// Which messages a handler's queue receives.
struct message_binding
{
    std::string routing_key;        // as the kind of exchange reads it: of a topic exchange a pattern
    std::string exchange{"skald"};  // where others publish

    /// `direct`, `topic`, `fanout` or `headers`: the exchange is declared, durable, if it is not there. Empty: its
    /// owner has declared it; a service whose exchange does not exist does not start.
    std::string type{};
};

/// How a message carries its payload, which is always JSON.
enum class message_format {
    json,          // the body is the payload
    cloud_events,  // CloudEvents 1.0, structured (`application/cloudevents+json`) or binary (headers `cloudEvents:...`)
    debezium,  // what Debezium's outbox event router sends: with or without a schema around it, JSON or JSON in text
};

/// What service::on() takes beside the handler.
struct message_options
{
    std::vector<message_binding> bind{};  // none: only what is sent to `<service>.on.<name>` on the exchange `skald`
    message_format format{};              // how it carries the payload
    message_key key{};                    // within the scope
    std::optional<message_key> scope{};   // whose it is: a tenant; at most 64 bytes. Nothing: ''
    step_options run{};                   // as of a step; `retry.deadline` and `call` don't apply
};

}  // namespace skald
