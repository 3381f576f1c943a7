// HTTP messages as handlers see them.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::http {

/// Names and values, in the order in which they are sent. A name may occur several times.
using header_list = std::vector<std::pair<std::string, std::string>>;

/// A request that has been read completely.
struct request
{
    std::string method;                               // "POST"
    std::string target;                               // as received: "/orders?x=1"
    std::string path{};                               // decoded: "/orders"
    std::string query{};                              // as received, without '?'
    std::map<std::string, std::string> parameters{};  // from the route: {key} of "/sagas/{key}", decoded
    header_list headers{};                            // in the order received, names as received
    std::string body{};                               // its bytes, without the framing of chunks

    /// The first header of that name, regardless of case, or empty. Lifetime: the request's.
    std::string_view header(std::string_view name) const;
};

/// What a handler returns. json_response() and problem_response() make the usual ones.
struct response
{
    int status{200};           // 200 to 599
    std::string content_type;  // empty if there is no body
    header_list headers;       // sent and stored with the response, in this order, except those that the server writes
    std::string body;          // any bytes

    /// With an Idempotency-Key, 401, 403, 408, 409, 425 and 429 are provisional: like a 5xx they leave nothing behind,
    /// and the key may be used again, unless this flag makes them the outcome. Any other status below 500 always is the
    /// outcome.
    bool is_final{false};
};

/// A response; and, if a better one may follow, for how long the client would rather wait for it. The request is then
/// made again, until its reply has no `max_wait` or the time is up.
struct reply
{
    /// Converts a response, which is not waited for.
    reply(response a, std::chrono::seconds w = {}) : answer{std::move(a)}, max_wait{w} {}

    response answer;                // what there is now
    std::chrono::seconds max_wait;  // 0: it is final
};

}  // namespace skald::http
