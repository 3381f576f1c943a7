// HTTP messages as Skald's handlers see them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::http {

/// Names and values, in the order in which they are sent. A name may come several times.
using header_list = std::vector<std::pair<std::string, std::string>>;

/// A request that was read whole.
struct request
{
    std::string method;                             // "POST"
    std::string target;                             // as received: "/orders?x=1"
    std::string path;                               // decoded: "/orders"
    std::string query;                              // as received, without '?'
    std::map<std::string, std::string> parameters;  // from the route: {key} of "/sagas/{key}", decoded
    header_list headers;                            // in the order received, names as received
    std::string body;                               // its bytes, without the framing of chunks

    /// The first header of that name, whatever its case, or empty. Lifetime: the request's.
    std::string_view header(std::string_view name) const;
};

/// What a handler answers with. json_response() and problem_response() make the usual ones.
struct response
{
    int status{200};           // 200 to 599
    std::string content_type;  // empty if there is no body
    header_list headers;       // sent, and stored with the answer, in this order; but for those that the server writes
    std::string body;          // any bytes

    /// Under an Idempotency-Key 401, 403, 408, 409, 425 and 429 may be another answer the next time: they leave nothing
    /// behind, as a 5xx does, and the key may be used again, unless this says that they are the outcome. Others below
    /// 500 always are.
    bool is_final{false};
};

}  // namespace skald::http
