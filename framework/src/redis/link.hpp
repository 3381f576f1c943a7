// A connection to a Redis server, by hiredis without blocking: whatever the server does, an act ends at its deadline.
#pragma once

#include "redis/tls.hpp"
#include "redis/url.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hiredis/hiredis.h>

namespace skald::redis_detail {

/// The link is of no use any more: what the server answers next may belong to an earlier act.
struct link_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

using words = std::vector<std::string>;

/// An answer. Lifetime of what it shows: its own.
class reply
{
public:
    explicit reply(redisReply* made) : made_{made} {}

    /// "NOSCRIPT ...", "OOM ...": the server's refusal; empty if it is none.
    std::string_view error() const { return made_->type == REDIS_REPLY_ERROR ? text_of(*made_) : std::string_view{}; }
    bool is_nothing() const { return made_->type == REDIS_REPLY_NIL; }
    std::string_view text() const { return text_of(*made_); }
    long long number() const { return made_->integer; }
    std::size_t size() const { return made_->type == REDIS_REPLY_ARRAY ? made_->elements : 0; }

    /// Of an array: empty if it has none there.
    std::string_view text(std::size_t at) const { return at < size() ? text_of(*made_->element[at]) : ""; }

    /// Of an array in an array.
    std::size_t size_of(std::size_t at) const { return at < size() ? made_->element[at]->elements : 0; }
    std::string_view text_of(std::size_t at, std::size_t inner) const
    {
        return inner < size_of(at) ? text_of(*made_->element[at]->element[inner]) : "";
    }
    long long number(std::size_t at) const { return at < size() ? made_->element[at]->integer : 0; }

private:
    static std::string_view text_of(redisReply const& one)
    {
        return one.str == nullptr ? "" : std::string_view{one.str, one.len};
    }

    struct deleter
    {
        void operator()(redisReply* one) const { freeReplyObject(one); }
    };
    std::unique_ptr<redisReply, deleter> made_;
};

/// Threads: one at a time.
class link
{
public:
    using clock = std::chrono::steady_clock;

    /// Connects. Looking up a host's name is not bounded by the deadline. Throws link_error, as all of it does.
    link(endpoint const& where, clock::time_point until, bool has_tls = false);

    /// To be sent with the next receive(); each is answered in turn.
    void send(words const& command);
    reply receive(clock::time_point until);

    /// Sends it as far as that goes at once; its answer is read before the next one that somebody waits for.
    void tell(words const& command);

    /// How many of those were refused by the server, since the last time.
    std::uint64_t take_refused() { return std::exchange(refused_, 0); }

    /// How the latest of them was refused.
    std::string const& refusal() const { return refusal_; }

    /// Whether nothing has come that was not asked for; the end of the connection has.
    bool is_quiet() const;

    reply ask(words const& command, clock::time_point until)
    {
        send(command);
        return receive(until);
    }

private:
    [[noreturn]] void fail() const;
    [[noreturn]] void fail_to_read() const;
    void connect_fully(endpoint const& where, clock::time_point until);
    bool write_some();
    std::size_t read_some();
    short events(short otherwise) const { return tls_ ? tls_->events() : otherwise; }
    void wait(short events, clock::time_point until);
    void flush(clock::time_point until);
    reply read_one(clock::time_point until);

    struct deleter
    {
        void operator()(redisContext* one) const { redisFree(one); }
    };
    std::unique_ptr<redisContext, deleter> context_;  // the socket, and what reads answers
    std::optional<tls> tls_;
    std::string unsent_;
    std::size_t told_{};  // answers that nobody waits for are still to come
    std::uint64_t refused_{};
    std::string refusal_;
};

/// A link to the server that may be written to, found by its sentinels where there are some, and ready for use.
std::unique_ptr<link> connect(address const& where, link::clock::time_point until);

}  // namespace skald::redis_detail
