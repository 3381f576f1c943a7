#include "http/request_reader.hpp"

#include <utility>

#include "core/assert.hpp"

namespace skald::http {

request_reader::progress request_reader::advance()
{
    if (state_ == progress::needs_head) state_ = read_head();
    if (state_ == progress::needs_body) state_ = read_body();
    received_.compact();
    return state_;
}

bool request_reader::awaits_continue() const
{
    return state_ == progress::needs_body && head_.head().expects_continue && !body_has_begun_;
}

request_reader::progress request_reader::read_head()
{
    auto const read = head_.read(received_, limits_);
    if (!read) return refuse(read.error());
    if (*read == arrival::incomplete) return progress::needs_head;
    return head_.head().has_body() ? progress::needs_body : progress::complete;
}

request_reader::progress request_reader::read_body()
{
    auto& head = head_.head();
    auto& body = head.message.body;
    body_has_begun_ = body_has_begun_ || has_bytes();
    if (head.is_chunked) {
        auto const read = chunks_.read(received_, body, limits_);
        if (!read) return refuse(read.error());
        return *read == arrival::complete ? progress::complete : progress::needs_body;
    }
    body += received_.take(body_bytes_left());
    return body_bytes_left() > 0 ? progress::needs_body : progress::complete;
}

request_reader::progress request_reader::refuse(refusal const& why)
{
    why_ = why;
    keeps_alive_ = false;
    return progress::refused;
}

std::size_t request_reader::body_bytes_left() const
{
    return static_cast<std::size_t>(head_.head().content_length.value_or(body_bytes())) - body_bytes();
}

void request_reader::forget()
{
    received_ = {};
    head_ = {};
}

request request_reader::take()
{
    SKALD_ASSERT(state_ == progress::complete);
    auto taken = std::move(head_.head().message);
    keeps_alive_ = head_.head().keep_alive;
    head_ = {};
    chunks_ = {};
    body_has_begun_ = false;
    state_ = progress::needs_head;
    return taken;
}

}  // namespace skald::http
