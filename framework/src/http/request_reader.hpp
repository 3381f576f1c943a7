// Turns the bytes of a connection into requests, one after the other. No sockets, no clocks: whoever has the bytes
// brings them, so that every cut of every request can be tested without a network.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <skald/http.hpp>

#include "http/head.hpp"
#include "http/limits.hpp"

namespace skald::http {

/// Threads: one.
class request_reader
{
public:
    enum class progress {
        needs_head,  // append() more: the head isn't whole yet
        needs_body,  // append() more: the head is accepted
        complete,    // take() the request
        refused,     // answer why() and close; nothing more is read
    };

    explicit request_reader(request_limits const& limits);
    ~request_reader();

    void append(std::string_view bytes);
    progress advance();

    /// Whether bytes of a request that isn't complete, or of the one after it, were received.
    bool has_bytes() const { return !received_.empty(); }

    /// Whether the client waits for "100 Continue" before it sends the body. Meaningful in needs_body.
    bool awaits_continue() const;

    /// How much of the body has come, without the framing of chunks. Meaningful in needs_body.
    std::size_t body_bytes() const;

    /// How much of the body is still to come; 0 where its length was not told. Meaningful in needs_body.
    std::size_t body_bytes_left() const;

    /// Frees what it holds. Nothing more is read.
    void forget();

    /// The complete request. The reader is then ready for the next one, of which it may hold bytes already.
    request take();

    /// Of the request taken last.
    bool keeps_alive() const { return keeps_alive_; }
    /// Why advance() refused.
    refusal const& why() const { return why_; }

private:
    class body_framing;

    progress read_head();
    progress read_body();
    progress refuse(refusal const& why);

    request_limits limits_;
    std::string received_;  // not yet consumed; bounded by the limits and what one append() brings
    head_scanner scanner_;
    request_head head_;
    std::unique_ptr<body_framing> framing_;  // while a body is read; it holds what Boost.Beast knows
    progress state_{progress::needs_head};
    bool keeps_alive_{true};
    bool body_has_begun_{false};
    refusal why_;
};

}  // namespace skald::http
