// The envelope: the content of a saga message's headers, read strictly and written in exactly one form.
// See docs/protocol.md, "Messages".
#pragma once

#include "core/identity.hpp"
#include "core/instant.hpp"
#include "core/itinerary.hpp"
#include "core/message.hpp"

#include <skald/trace.hpp>

#include <optional>
#include <string>
#include <variant>

namespace skald::core {

inline constexpr std::string_view progress_type = "skald.progress";
inline constexpr std::string_view expire_type = "skald.expire";
inline constexpr std::string_view expired_type = "skald.expired";
inline constexpr std::string_view signal_type = "skald.signal";

namespace header {
inline constexpr std::string_view idempotency_key = "x-idempotency-key";
inline constexpr std::string_view scope = "x-saga-scope";
inline constexpr std::string_view definition = "x-saga";
inline constexpr std::string_view version = "x-saga-version";
inline constexpr std::string_view itinerary = "x-saga-itinerary";
inline constexpr std::string_view home = "x-saga-home";
inline constexpr std::string_view reason = "x-saga-reason";
inline constexpr std::string_view attempt = "x-attempt";
inline constexpr std::string_view snoozes = "x-snoozes";
inline constexpr std::string_view saga_deadline = "x-saga-deadline";
inline constexpr std::string_view step_deadline = "x-step-deadline";
inline constexpr std::string_view waits_since = "skald-waits-since";
inline constexpr std::string_view traceparent = "traceparent";
inline constexpr std::string_view tracestate = "tracestate";
}  // namespace header

/// A header that Skald itself writes and reads, and that a message can't be read without. Others are the user's.
bool is_skalds_header(std::string_view name);

/// The highest count in a message: fencing tokens of a step (its attempts and snoozes together), and versions. A retry
/// command continues from the count reached, so that what is read may be more than what is written for an attempt.
inline constexpr int count_max = 2'000'000'000;

/// How often a step is tried or snoozed before it is parked: a message every second for 31 years.
inline constexpr int fencing_token_max = 1'000'000'000;

struct envelope
{
    saga_id saga;
    std::string definition;
    int version{1};
    core::itinerary itinerary;
    std::string home;
    std::string reason;  // why the saga compensates; empty going forward
    int attempt{1};
    int snoozes{0};
    std::optional<instant> saga_deadline;
    std::optional<instant> step_deadline;  // set by the first attempt or snooze that did not end the step
    std::optional<instant> waits_since{};  // when it first met a process that does not have its step yet
    trace_context trace;

    /// False: it is of a message that belongs to no saga, and `saga` is that message's identity.
    bool is_of_saga() const { return !definition.empty(); }

    derived_key key() const { return {saga.key, itinerary.current().name, itinerary.position.direction}; }

    /// The fencing token of this message within its step: failed attempts and snoozes both increase it. A message whose
    /// token is already recorded is a duplicate.
    int fencing_token() const { return attempt + snoozes; }

    /// From when on the step must not begin: the earlier deadline, up to the pivot. After the pivot, and for
    /// compensations, none.
    std::optional<instant> deadline() const;

    /// The envelope of another step of the same saga.
    envelope at(position there) const;
};

/// Why a message can't be accepted for a saga's step: one sentence.
struct refusal
{
    std::string why;
};

/// Checks everything: names, sizes, numbers, and that the key, the type and the itinerary refer to the same step.
std::variant<envelope, refusal> read_envelope(message const& received);

/// Trace context is for observers: one that is malformed is dropped, and never a reason to refuse a message or a
/// request.
trace_context valid_trace(std::string_view traceparent, std::string_view tracestate);

/// Adds its headers, if there is a trace.
void add_trace(header_list& headers, trace_context const& trace);
void remove_trace(header_list& headers);

/// The message to the service of the envelope's step.
message write_message(envelope const& e, std::string body);

}  // namespace skald::core
