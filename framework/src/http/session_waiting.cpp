// The part of a session that waits: for the response to the first request with a key, or for the end of a saga.
//
// A waiting client holds no lane and no database connection: the request stays on the I/O thread, with a timer, and the
// handlers are asked again from time to time. Before each poll the socket is checked for whether the client has closed
// its sending half. A client that has left must not keep its place; one that will merely send nothing more gets the
// latest response, since nothing else would tell it the state.
#include "core/assert.hpp"
#include "http/prefer.hpp"
#include "http/session.hpp"

#include <algorithm>
#include <utility>

#include <poll.h>

namespace skald::http {
namespace {

// For the poll at the end of a wait, which may find every lane taken.
constexpr std::chrono::milliseconds last_poll_time{250};

// Reads nothing: what the client has pipelined stays where it is.
bool has_closed_sending(int socket)
{
    pollfd asked{socket, POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) > 0;  // poll() always reports errors and hangups
}

}  // namespace

void session::on_reply(received asked, reply made)
{
    if (!is_open_) return;
    route_ = route_of(asked);
    auto const max_wait = std::min(made.max_wait, hub_.wait_max);
    bool const may_wait = max_wait.count() > 0 && !hub_.draining;
    if (!waiting_ && may_wait && hub_.waits < hub_.limits.waits_max) begin_wait(asked.message, max_wait);
    if (!waiting_) return respond(std::move(made.answer));

    waiting_->asked = std::move(asked);
    waiting_->latest = std::move(made.answer);
    may_wait ? await_poll() : end_wait();
}

void session::begin_wait(request const& message, std::chrono::seconds max_wait)
{
    SKALD_ASSERT(owes_response_);
    ++hub_.waits;
    waiting_.emplace(poll_schedule{poll_schedule::clock::now(), max_wait});
    if (wait_preference(message)) waiting_->applied = "wait=" + std::to_string(max_wait.count());
}

void session::await_poll()
{
    phase_ = phase::waiting;
    waiting_->is_polled = false;
    if (auto const pause = waiting_->polls.next(poll_schedule::clock::now())) set_deadline(*pause);
    else end_wait();
}

void session::on_wait_timer()
{
    waiting_->is_polled || has_closed_sending(stream_->socket().native_handle()) ? end_wait() : poll_again();
}

void session::poll_again()
{
    SKALD_ASSERT(waiting_ && !waiting_->is_polled);  // a lane that polls has the request
    if (auto made = handle_now(waiting_->asked)) return on_reply(std::move(waiting_->asked), *std::move(made));
    // If all lanes are taken, the latest response is good enough.
    if (!submit_to_lanes(waiting_->asked)) return await_poll();
    waiting_->is_polled = true;
    set_deadline(waiting_->polls.left(poll_schedule::clock::now()) + last_poll_time);
}

/// Sends the latest response. The reply of a poll still in progress is dropped: whatever it does is done under the
/// client's key, and a retry with that key gets it.
void session::end_wait()
{
    SKALD_ASSERT(waiting_);
    ++submitted_;
    auto latest = std::move(waiting_->latest);
    if (!waiting_->applied.empty()) latest.headers.emplace_back("Preference-Applied", std::move(waiting_->applied));
    forget_wait();
    respond(std::move(latest));
}

void session::forget_wait()
{
    if (!waiting_) return;
    waiting_.reset();
    SKALD_ASSERT(hub_.waits > 0);
    --hub_.waits;
}

}  // namespace skald::http
