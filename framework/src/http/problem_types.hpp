// The single list of all problem types that Skald responds with: name, status and texts. docs/http.md says what a
// client does about each, and the test `docs_problems` compares the two.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace skald::http {

enum class problem_type {
    idempotency_key,
    body,
    scope,
    wait,
    unauthorized,
    in_flight,
    key_used_elsewhere,
    not_cancellable,
    key_reused,
    unavailable,
    backlog,
    outcome_unknown,
    outcome_unknown_no_key,
    not_ready,
};

struct problem_kind
{
    std::string_view name;  // the type is the relative reference "/problems/<name>"
    int status;
    std::string_view title;   // the same for every occurrence (RFC 9457, 3.1.3)
    std::string_view remedy;  // what the client should do; GET of the type responds with this and the title
};

/// In the order of the enum.
inline constexpr std::array<problem_kind, 14> problem_kinds{{
    {"idempotency-key", 400, "The Idempotency-Key is missing or malformed",
     "Send one header Idempotency-Key with a key of your own for this intent, such as a UUID in double quotes: "
     "printable ASCII, 180 bytes at most. It is remembered for 30 days after its answer, or after the end of what it "
     "started, unless the service says otherwise; for a day at least."},
    {"body", 400, "The body is not what this resource takes",
     "Mend the body. Nothing was done or stored, so the same key may be used again."},
    {"scope", 400, "It is not clear whose request this is",
     "Mend what says who the request is from: it is missing, there twice, or no name. Nothing was done or stored."},
    {"wait", 400, "The time to wait is no whole number of seconds", "Write ?wait= with a whole number of seconds."},
    {"unauthorized", 401, "The request is not authorized",
     "Show who you are as WWW-Authenticate says, and send the request again with the same key."},
    {"in-flight", 409, "A request with this Idempotency-Key is being served",
     "Send the same request with the same key again after Retry-After, or with Prefer: wait=30."},
    {"key-used-elsewhere", 409, "The Idempotency-Key was used outside of HTTP",
     "There is no answer to repeat. Look at /sagas/ and the key, or use another key."},
    {"not-cancellable", 409, "The saga can't be cancelled",
     "It is past its pivot, is compensating already, or has ended. Look at the saga."},
    {"key-reused", 422, "The Idempotency-Key belongs to another request",
     "One key is one request: the same method, path, query and body. A new intent has a new key."},
    {"unavailable", 503, "The database is away", "Send the same request with the same key again after Retry-After."},
    {"backlog", 503, "Too many messages wait for the broker",
     "Nothing was done. Send the same request with the same key again after Retry-After."},
    {"outcome-unknown", 503, "It is not known whether the request took effect",
     "Send the same request with the same key again, and never with another: it is done once, and you hear what became "
     "of it."},
    {"outcome-unknown-no-key", 503, "It is not known whether the request took effect, and it had no Idempotency-Key",
     "Look whether it took effect before you send it again: it would be done again."},
    {"not-ready", 503, "The service is not ready", "Wait: the database is away."},
}};

constexpr problem_kind const& kind_of(problem_type type)
{
    return problem_kinds[static_cast<std::size_t>(type)];
}

static_assert(kind_of(problem_type::not_ready).name == "not-ready");

}  // namespace skald::http
