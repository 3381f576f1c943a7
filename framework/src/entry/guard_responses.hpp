// The guard's own responses, for when no handler has produced one.
#pragma once

#include <chrono>
#include <string_view>

#include "http/problem.hpp"

namespace skald::entry_detail {

// A broker that was away long enough to fill the outbox needs more than a moment to drain it.
inline constexpr std::chrono::seconds backlog_wait{5};

inline http::response try_again_later(http::problem_type type, std::string_view detail)
{
    return http::with_retry_after(http::problem(type, detail), std::chrono::seconds{1});
}

// Never "failed": it may have committed, or may yet commit.
inline http::response outcome_unknown(bool client_has_key)
{
    if (!client_has_key)
        return http::problem(http::problem_type::outcome_unknown_no_key,
                             "it is not known whether the request took effect, and it had no Idempotency-Key to ask "
                             "with: look before sending it again");
    return try_again_later(
        http::problem_type::outcome_unknown,
        "it is not known whether the request took effect; send it again with the same key to learn it");
}

// It was rolled back each time because it could not get its locks.
inline http::response others_were_in_the_way()
{
    return http::with_retry_after(
        http::problem(503, "others had the same rows each time; nothing was done, send the request again"),
        std::chrono::seconds{1});
}

inline http::response database_away(bool client_has_key)
{
    return try_again_later(http::problem_type::unavailable,
                           client_has_key ? "the database is away, or can't do this now; send the request again with "
                                            "the same key"
                                          : "the database is away, or can't do this now; nothing was done, send "
                                            "the request again");
}

inline http::response in_flight()
{
    return try_again_later(http::problem_type::in_flight,
                           "a request with this Idempotency-Key is being served; ask again");
}

// Only where the front alone remembers: fails closed, since the handler might have run already.
inline http::response front_away()
{
    return http::with_retry_after(
        http::problem(503, "what remembers the keys of this route is away; nothing was done, send the request again"),
        std::chrono::seconds{1});
}

// There too. It may have committed, and the key is remembered only if its response is.
inline http::response may_be_repeated()
{
    return http::with_retry_after(
        http::problem(503, "it is not known whether the request took effect; sent again, it may take effect again"),
        std::chrono::seconds{1});
}

inline http::response replayed(http::response answer)
{
    answer.headers.emplace_back("Idempotency-Replayed", "true");
    return answer;
}

inline http::response key_reused()
{
    return http::problem(http::problem_type::key_reused, "the Idempotency-Key was used before with another request");
}

inline http::response used_elsewhere()
{
    return http::problem(http::problem_type::key_used_elsewhere,
                         "the key was used outside of HTTP: there is no answer to replay");
}

// Whatever is accepted must be sent eventually: with this large a backlog, it is better not to start a new saga.
inline http::response refuse_for_now()
{
    return http::with_retry_after(http::problem(http::problem_type::backlog,
                                                "too many messages wait for the broker; nothing was done, send "
                                                "the request again later"),
                                  backlog_wait);
}

}  // namespace skald::entry_detail
