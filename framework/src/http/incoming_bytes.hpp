// The bytes of a connection that have arrived and are not read yet; and the only definition of a line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "http/refusal.hpp"

namespace skald::http {

/// Whether all of a head or a body has arrived.
enum class arrival { incomplete, complete };

class incoming_bytes
{
public:
    void append(std::string_view bytes) { bytes_ += bytes; }
    bool empty() const { return read_ == bytes_.size(); }

    /// The next line, without its CRLF. Nothing if more is needed. A line is refused if it has a CR or LF that is not
    /// part of a CRLF, and with `too_long` if it has more than `bytes_max` bytes; both as early as possible. The result
    /// is valid until append() or compact().
    or_refusal<std::optional<std::string_view>> take_line(std::size_t bytes_max, refusal const& too_long);

    /// The next bytes, `bytes_max` at most. Valid likewise.
    std::string_view take(std::size_t bytes_max);

    /// Removes what was read; and frees the memory if there is nothing else, because a connection may be idle for long.
    void compact();

private:
    std::string_view unread() const { return std::string_view{bytes_}.substr(read_); }

    std::string bytes_;
    std::size_t read_{0};
    std::size_t searched_{0};  // so many unread bytes are known to hold no end of a line
};

}  // namespace skald::http
