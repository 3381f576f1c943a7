#include "http/incoming_bytes.hpp"

namespace skald::http {
namespace {

constexpr refusal bad_line_end{400, "Lines must end in CRLF."};

}  // namespace

or_refusal<std::optional<std::string_view>> incoming_bytes::take_line(std::size_t bytes_max, refusal const& too_long)
{
    auto const rest = unread();
    auto const line = rest.substr(0, rest.find_first_of("\r\n", searched_));
    if (line.size() > bytes_max) return too_long;

    auto const end = rest.substr(line.size(), 2);
    if (end.empty() || end == "\r") {
        searched_ = line.size();
        return std::nullopt;
    }
    if (end != "\r\n") return bad_line_end;
    read_ += line.size() + end.size();
    searched_ = 0;
    return line;
}

std::string_view incoming_bytes::take(std::size_t bytes_max)
{
    auto const bytes = unread().substr(0, bytes_max);
    read_ += bytes.size();
    return bytes;
}

void incoming_bytes::compact()
{
    if (empty()) std::string{}.swap(bytes_);
    else bytes_.erase(0, read_);
    read_ = 0;
}

}  // namespace skald::http
