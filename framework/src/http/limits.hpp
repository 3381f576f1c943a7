// How much of a request the server reads before it says no. The defaults are server_options'.
#pragma once

#include <cstddef>

namespace skald::http {

struct request_limits
{
    std::size_t request_line_bytes_max;  // without its CRLF; beyond: 414
    std::size_t header_bytes_max;        // the whole head, with the request line and the empty line; beyond: 431
    std::size_t header_count_max;        // 431
    std::size_t body_bytes_max;          // without the framing of chunks; beyond: 413
};

}  // namespace skald::http
