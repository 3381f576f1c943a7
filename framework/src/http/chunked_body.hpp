// A body in chunks (RFC 9112, 7.1): lines with a size, each followed by so many bytes, and a trailer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <skald/config.hpp>

#include "http/incoming_bytes.hpp"
#include "http/refusal.hpp"

namespace skald::http {

/// Reads one body. Extensions and the trailer are checked and discarded: a header that comes after the body must not
/// count as one that came before it.
class chunked_body
{
public:
    /// Moves data from `from` to the end of `body`, as far as it has arrived.
    or_refusal<arrival> read(incoming_bytes& from, std::string& body, http_limits const& limits);

private:
    enum class line { size, end_of_data, trailer };

    or_refusal<std::optional<std::string_view>> take_line(incoming_bytes& from, http_limits const& limits) const;
    std::optional<refusal> begin_chunk(std::string_view size_line, std::size_t body_bytes_left);

    line next_{line::size};
    std::size_t data_bytes_left_{0};  // of the chunk
    std::size_t framing_bytes_{0};    // of the trailer and the extensions
};

}  // namespace skald::http
