// Messages of senders that know nothing of Skald: who they are about, and what they carry. Pure.
#pragma once

#include "core/identity.hpp"
#include "core/message.hpp"

#include <skald/message.hpp>
#include <skald/trace.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace skald::core {

/// In place of a saga's home in the guard's record of a message: no service has this name, so neither a saga's step nor
/// a command for a saga of the same key is taken for it.
inline constexpr std::string_view no_saga = "-";

namespace header {
// The key and the scope that were found when the message first came. What the rules would find in a message that has
// been in the outbox may differ: JSON has neither two headers of one name, nor bytes that are no text. They mean
// something in what came over Skald's exchange only: drop_words_of_ours().
inline constexpr std::string_view message_key = "skald-message-key";
inline constexpr std::string_view message_scope = "skald-message-scope";
// A message that is sent again has an id and a type, since the outbox needs both. These say that it had none.
inline constexpr std::string_view message_id = "skald-message-id";
inline constexpr std::string_view message_type = "skald-message-type";

// Properties of the message itself, not among its headers on the wire. The transport turns one into the other, so that
// they travel through outbox and parked deliveries like any header.
inline constexpr std::string_view reply_to = "skald-reply-to";
inline constexpr std::string_view correlation_id = "skald-correlation-id";
inline constexpr std::string_view exchange = "skald-exchange";  // that it is published to; empty: the default one
}  // namespace header

/// Where messages for a handler go on the exchange `skald`: `payments.on.payment-created`.
std::string handler_destination(std::string_view service, std::string_view handler);

/// Who it is, in a message for a handler that Skald itself sends again; nothing: it was not tried yet.
std::optional<saga_id> identity_in(message const& m);

/// Whether it comes out of an outbox as it went in, so that the same key is found in it. One whose key is known, does.
bool is_kept_by_outbox(message const& m);

/// The handler that such a destination of `service` names; empty: none.
std::string_view handler_of(std::string_view destination, std::string_view service);

struct accepted_message
{
    saga_id identity;  // scope and key
    std::string payload;
    trace_context trace;
    int attempt{1};
    int snoozes{0};
};

struct refused_message
{
    std::string_view reason;  // one that the constraint reason_is_known allows
    std::string why;
};

std::variant<accepted_message, refused_message> read_foreign(message const& received, message_options const& rules);

/// Takes out of a message the headers that only one that Skald sends again has: the transport does, where it did not
/// come over Skald's exchange. Whoever may publish elsewhere must not name the key.
void drop_words_of_ours(message& m);

/// Takes out of what was received the headers that would act if it were sent again: brokers' own, and the name of an
/// exchange. The transport does, before anything else reads it.
void drop_headers_that_act(message& m);

/// Gives a message that is sent again the id and the type that it came with.
void restore_properties(message& m);

/// For the handler.
received_message as_received(message const& m, std::string payload);

/// Whether a header is one that a message has when Skald sends it again.
bool is_added_by_skald(std::string_view name);

/// The same message once more. It gets `id` and a type if it has none, which restore_properties() takes away.
message write_unchanged(message const& received, std::string destination, std::string const& id);

/// The same message once more, with the identity that was found in it and the numbers of the attempt. It gets an id and
/// a type if it has none.
message write_again(message const& received, std::string destination, saga_id const& identity,
                    std::string const& derived_key, int attempt, int snoozes);

/// Whether it is one.
bool is_reply(message const& m);

/// The reply to `request`. Its destination is empty if that asks for none.
message write_reply(message const& request, std::string_view handler, std::string const& derived_key, std::string body);

}  // namespace skald::core
