// Turns the bytes of a connection into requests, one after the other. No sockets and no clocks: the caller supplies the
// bytes, so that every way to split every request can be tested without a network.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <skald/config.hpp>
#include <skald/http.hpp>

#include "http/head.hpp"

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

    explicit request_reader(http_limits const& limits);
    ~request_reader();

    void append(std::string_view bytes);
    progress advance();

    /// Whether it holds received bytes of an incomplete request, or of the next one.
    bool has_bytes() const { return !received_.empty(); }

    /// Whether the client waits for "100 Continue" before it sends the body. Meaningful in needs_body.
    bool awaits_continue() const;

    /// How many bytes of the body have arrived, without chunk framing. Meaningful in needs_body.
    std::size_t body_bytes() const;

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
    class body_framing;

    progress read_head();
    progress read_body();
    progress refuse(refusal const& why);

    http_limits limits_;
    std::string received_;  // not consumed yet; bounded by the limits plus one append()
    head_scanner scanner_;
    request_head head_;
    std::unique_ptr<body_framing> framing_;  // while a body is read: the state of Boost.Beast
    progress state_{progress::needs_head};
    bool keeps_alive_{true};
    bool body_has_begun_{false};
    refusal why_;
};

}  // namespace skald::http
