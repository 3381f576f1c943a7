// How much of a request the server reads before it refuses it. The defaults are those of server_options.
#pragma once

#include <cstddef>

namespace skald::http {

struct request_limits
{
    std::size_t request_line_bytes_max;  // without its CRLF; more: 414
    std::size_t header_bytes_max;        // the whole head, with the request line and the empty line; more: 431
    std::size_t header_count_max;        // more: 431
    std::size_t body_bytes_max;          // without chunk framing; more: 413
};

}  // namespace skald::http
