// Turns the bytes of a connection into requests, one after the other. No sockets and no clocks: the caller supplies the
// bytes, so that every way to split every request can be tested without a network.
#pragma once

#include <cstddef>
#include <string_view>

#include <skald/config.hpp>
#include <skald/http.hpp>

#include "http/chunked_body.hpp"
#include "http/head.hpp"
#include "http/incoming_bytes.hpp"
#include "http/refusal.hpp"

namespace skald::http {

/// Threads: one.
class request_reader
{
public:
    enum class progress {
        needs_head,  // append() more: the head is incomplete
        needs_body,  // append() more: the head is accepted
        complete,    // take() the request
        refused,     // respond with why() and close; nothing more is read
    };

    /// `limits` must outlive it.
    explicit request_reader(http_limits const& limits) : limits_{limits} {}

    void append(std::string_view bytes) { received_.append(bytes); }
    progress advance();

    /// Whether it holds received bytes of an incomplete request, or of the next one.
    bool has_bytes() const { return !received_.empty(); }

    /// Whether the client waits for "100 Continue" before it sends the body. Meaningful in needs_body.
    bool awaits_continue() const;

    /// How many bytes of the body have arrived, without chunk framing. Meaningful in needs_body.
    std::size_t body_bytes() const { return head_.head().message.body.size(); }

    /// How many bytes of the body are still to come; 0 if its length is not known. Meaningful in needs_body.
    std::size_t body_bytes_left() const;

    /// Frees its memory. Nothing more is read.
    void forget();

    /// The complete request. The reader is then ready for the next one, and may already hold bytes of it.
    request take();

    /// For the request taken last.
    bool keeps_alive() const { return keeps_alive_; }
    /// Why advance() refused.
    refusal const& why() const { return why_; }

private:
    progress read_head();
    progress read_body();
    progress refuse(refusal const& why);

    http_limits const& limits_;
    incoming_bytes received_;  // bounded by the limits plus one append()
    head_reader head_;
    chunked_body chunks_;
    progress state_{progress::needs_head};
    bool keeps_alive_{true};
    bool body_has_begun_{false};
    refusal why_;
};

}  // namespace skald::http
