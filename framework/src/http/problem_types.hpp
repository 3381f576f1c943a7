// Every type of problem that Skald answers with, once: its name, its status, its words. docs/http.md says what a client
// does about each, and the test `docs_problems` compares the two.
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
    not_ready,
};

struct problem_kind
{
    std::string_view name;  // the type is the relative reference "/problems/<name>"
    int status;
    std::string_view title;  // the same whenever it occurs (RFC 9457, 3.1.3)
};

/// In the order of the enum.
inline constexpr std::array<problem_kind, 13> problem_kinds{{
    {"idempotency-key", 400, "The Idempotency-Key is missing or malformed"},
    {"body", 400, "The body is not what this resource takes"},
    {"scope", 400, "It is not clear whose request this is"},
    {"wait", 400, "The time to wait is no whole number of seconds"},
    {"unauthorized", 401, "The request is not authorized"},
    {"in-flight", 409, "A request with this Idempotency-Key is being served"},
    {"key-used-elsewhere", 409, "The Idempotency-Key was used outside of HTTP"},
    {"not-cancellable", 409, "The saga can't be cancelled"},
    {"key-reused", 422, "The Idempotency-Key belongs to another request"},
    {"unavailable", 503, "The database is away"},
    {"backlog", 503, "Too many messages wait for the broker"},
    {"outcome-unknown", 503, "It is not known whether the request took effect"},
    {"not-ready", 503, "The service is not ready"},
}};

constexpr problem_kind const& kind_of(problem_type type)
{
    return problem_kinds[static_cast<std::size_t>(type)];
}

static_assert(kind_of(problem_type::not_ready).name == "not-ready");

}  // namespace skald::http
