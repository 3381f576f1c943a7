#include "http/session.hpp"

#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "http/problem.hpp"

namespace skald::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr refusal head_too_slow{408, "The header took too long."};
constexpr refusal body_too_slow{408, "The body took too long."};
constexpr refusal too_many_bodies{503, "The server holds too many request bodies."};
// Bytes arrive in the buffer before on_read() runs, which may have to wait. No request begins with this byte.
constexpr char nothing_yet = '\0';
constexpr std::string_view continue_line = "HTTP/1.1 100 Continue\r\n\r\n";

// For how long, and for how many bytes, a connection is still read after its last response.
constexpr auto linger_time = 1'000ms;
constexpr std::size_t linger_bytes_max = 1024 * 1024;

}  // namespace

session::session(std::unique_ptr<stream> connection, session_hub& hub)
    : stream_{std::move(connection)}, timer_{stream_->socket().get_executor()}, hub_{hub}, reader_{hub.limits}
{
    received_[0] = nothing_yet;
}

void session::start(peer_count::place place, std::string peer)
{
    place_ = std::move(place);
    peer_ = std::move(peer);
    hub_.sessions.insert(shared_from_this());
    hub_.connections = hub_.sessions.size();
    become_sheddable();  // also while it has yet to complete the TLS handshake
    open();
}

void session::turn_away(refusal const& why)
{
    turned_away_ = why;
    ++hub_.turned_away;
    closes_after_ = true;
    has_unread_ = true;
    open();
}

void session::open()
{
    if (stream_->open(then<&session::on_opened>())) return begin();
    set_deadline(hub_.limits.header_time);
}

/// A client whose handshake failed is told why by TLS itself, if it waits for it.
void session::on_opened(error_code error, std::size_t)
{
    if (!is_open_) return;
    if (!error) return begin();
    hub_.log.debug("http.handshake_failed", {{"reason", error.message()}});
    has_unread_ = true;
    close_gently();
}

void session::begin()
{
    if (!turned_away_) return await_request();
    respond(with_retry_after(problem(turned_away_->status, turned_away_->detail), 1s));
}

void session::drain()
{
    // One that has sent a request, or a part of it, hears of it first.
    if (phase_ == phase::opening || (phase_ == phase::idle && gives_way())) close();
    else if (phase_ == phase::waiting) end_wait();
}

void session::close()
{
    if (!std::exchange(is_open_, false)) return;
    clear_deadline();
    forget_wait();
    stay();
    stream_->close();
    SKALD_ASSERT(!turned_away_ || hub_.turned_away > 0);
    if (turned_away_) --hub_.turned_away;
    place_ = {};
    hub_.sessions.erase(shared_from_this());
    hub_.connections = hub_.sessions.size();
    if (hub_.sessions.empty() && hub_.on_last_closed) hub_.on_last_closed();
}

// One without a request stays if it has just begun to send one: bytes have arrived that on_read() has not seen yet.
bool session::gives_way()
{
    if (phase_ != phase::opening && phase_ != phase::idle) return true;
    error_code error;
    return received_[0] == nothing_yet && stream_->socket().available(error) == 0;
}

void session::become_sheddable()
{
    if (!sheddable_at_ && !turned_away_) sheddable_at_ = hub_.sheddable.insert(hub_.sheddable.end(), this);
}

// From here on it waits for its client alone, and has a request or had one.
void session::become_sheddable_if_slow()
{
    hub_.sheds_slow_clients ? become_sheddable() : stay();
}

void session::stay()
{
    if (auto const at = std::exchange(sheddable_at_, std::nullopt)) hub_.sheddable.erase(*at);
}

void session::await_request()
{
    if (hub_.draining) return close_gently();
    phase_ = phase::idle;
    if (reader_.has_bytes()) return advance();  // pipelined
    become_sheddable();
    set_deadline(hub_.limits.idle_time);
    read_more();
}

void session::read_more()
{
    received_[0] = nothing_yet;
    stream_->read(asio::buffer(received_), then<&session::on_read>());
}

void session::on_read(error_code error, std::size_t size)
{
    if (!is_open_) return;
    if (is_late_ && phase_ == phase::head) return refuse(head_too_slow);
    if (is_late_ && phase_ == phase::body) return refuse(body_too_slow);
    if (error) return close();
    reader_.append({received_.data(), size});
    advance();
}

void session::advance()
{
    auto const progress = reader_.advance();
    progress == request_reader::progress::complete ? stay() : become_sheddable_if_slow();
    switch (progress) {
    case request_reader::progress::needs_head:
        if (phase_ != phase::head) set_deadline(hub_.limits.header_time);  // once: the limit is for the whole head
        phase_ = phase::head;
        return read_more();
    case request_reader::progress::needs_body: return read_body();
    case request_reader::progress::complete:
        return body_.hold(reader_.body_bytes()) ? dispatch() : refuse(too_many_bodies);
    case request_reader::progress::refused: return refuse(reader_.why());
    }
}

void session::read_body()
{
    if (!body_.hold(reader_.body_bytes())) return refuse(too_many_bodies);
    if (phase_ == phase::body) return read_more();
    if (!hub_.bodies.has_room_for(reader_.body_bytes_left())) return refuse(too_many_bodies);
    body_begun_at_ = std::chrono::steady_clock::now();
    set_deadline(hub_.limits.body_time);
    if (reader_.awaits_continue()) return send_continue();
    phase_ = phase::body;
    read_more();
}

void session::send_continue()
{
    phase_ = phase::responding;
    stream_->write({asio::buffer(continue_line), {}}, then<&session::on_continue_sent>());
}

void session::on_continue_sent(error_code error, std::size_t)
{
    if (error) return close();
    if (!is_open_) return;
    phase_ = phase::body;
    read_more();
}

void session::refuse(refusal const& why)
{
    hub_.log.debug("http.request_refused", {{"status", why.status}, {"reason", why.detail}});
    closes_after_ = true;
    has_unread_ = true;
    is_head_request_ = false;
    reader_.forget();
    auto made = problem(why.status, why.detail);
    respond(why.status == 503 ? with_retry_after(std::move(made), 1s) : std::move(made));
}

void session::dispatch()
{
    SKALD_ASSERT(!owes_response_ && !waiting_);  // the next request is not read before the last got its response
    clear_deadline();
    phase_ = phase::responding;
    owes_response_ = true;
    complete_at_ = std::chrono::steady_clock::now();
    received asked{.message = reader_.take(), .peer = peer_};
    closes_after_ = !reader_.keeps_alive() || ++request_count_ >= hub_.limits.connection_requests_max;
    is_head_request_ = asked.message.method == "HEAD";

    if (auto made = handle_now(asked)) return on_reply(std::move(asked), *std::move(made));
    route_ = route_of(asked);
    if (!submit_to_lanes(asked)) respond(with_retry_after(problem(503, "The service is busy."), 1s));
}

std::optional<reply> session::handle_now(received& asked)
try {
    return hub_.immediate ? hub_.immediate(asked) : std::nullopt;
}
catch (...) {
    return internal_error(asked.message, std::current_exception(), hub_.log);
}

/// False if all lanes are taken and the queue is full; `asked` is then left as it was. The lane only brings the reply
/// back; everything else about a connection happens on the I/O thread.
bool session::submit_to_lanes(received& asked)
{
    auto on_lane = [self = shared_from_this(), executor = timer_.get_executor(),
                    submitted = ++submitted_](received done, reply made) {
        asio::post(executor, [self, submitted, done = std::move(done), made = std::move(made)]() mutable {
            if (submitted == self->submitted_) self->on_reply(std::move(done), std::move(made));
        });
    };
    lane_pool::pending_request pending{std::move(asked), std::move(on_lane)};
    if (hub_.lanes.submit(pending)) return true;
    asked = std::move(pending.asked);
    return false;
}

void session::respond(response made)
{
    if (!is_open_) return;
    if (auto const flaw = flaw_of(made); !flaw.empty()) {
        hub_.log.error("http.response_refused", {{"status", made.status}, {"reason", flaw}});
        made = problem(500, "The request could not be handled.");
    }
    report(made);
    closes_after_ = closes_after_ || hub_.draining;
    auto const now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    response_head_ = response_head(made, {.keep_alive = !closes_after_, .date = now});
    response_body_ = is_head_request_ || !may_have_body(made.status) ? std::string{} : std::move(made.body);

    body_.release();
    phase_ = phase::responding;
    become_sheddable_if_slow();
    set_deadline(hub_.limits.write_time);
    SKALD_FAILPOINT_SOCKET(client, stream_->socket().native_handle());
    SKALD_FAILPOINT("http.answering");
    stream_->write({asio::buffer(response_head_), asio::buffer(response_body_)}, then<&session::on_written>());
}

std::size_t session::route_of(received const& asked) const
{
    return hub_.observer != nullptr ? hub_.observer->route_of(asked) : 0;
}

void session::report(response const& made)
{
    auto const complete_at = std::exchange(complete_at_, std::nullopt);
    auto const route = std::exchange(route_, 0);
    if (hub_.observer == nullptr) return;
    std::optional<std::chrono::steady_clock::duration> took;
    if (complete_at) took = std::chrono::steady_clock::now() - *complete_at;
    hub_.observer->responded(route, made, took);
}

void session::on_written(error_code error, std::size_t)
{
    if (!is_open_) return;
    owes_response_ = false;
    stay();
    clear_deadline();
    if (error) return close();
    SKALD_FAILPOINT_SOCKET(client, stream_->socket().native_handle());
    SKALD_FAILPOINT("http.answered");
    if (closes_after_) return close_gently();
    response_head_ = {};
    response_body_ = {};
    await_request();
}

/// Closing a socket while unread bytes are pending resets the connection, and the reset may overtake the response. So
/// what the client still sends is read and discarded for a while.
void session::close_gently()
{
    phase_ = phase::lingering;
    become_sheddable_if_slow();
    if (stream_->end(then<&session::on_ended>())) return on_ended({}, 0);
    set_deadline(linger_time);
}

void session::on_ended(error_code, std::size_t)
{
    if (!is_open_) return;
    error_code ignored;
    auto& socket = stream_->socket();
    socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    if (!has_unread_ && socket.available(ignored) == 0) return close();
    set_deadline(linger_time);
    linger();
}

void session::linger()
{
    stream_->socket().async_read_some(asio::buffer(received_), then<&session::on_lingered>());
}

void session::on_lingered(error_code error, std::size_t size)
{
    if (!is_open_) return;
    lingered_bytes_ += size;
    if (error || lingered_bytes_ > linger_bytes_max) return close();
    linger();
}

void session::set_deadline(std::chrono::milliseconds within)
{
    is_late_ = false;
    timer_.expires_after(within);
    timer_.async_wait([self = shared_from_this(), count = ++deadline_count_](error_code error) {
        if (!error && count == self->deadline_count_) self->on_late();
    });
}

/// Ends the reading of a request with an error response. Any other phase ends with a close: cancelling does not stop an
/// async_write that is between two of its writes, because there is nothing to cancel and it would go on indefinitely.
void session::on_late()
{
    if (phase_ == phase::waiting) return on_wait_timer();
    if (phase_ == phase::responding) hub_.log.debug("http.client_too_slow");
    if (phase_ != phase::head && phase_ != phase::body) return close();
    if (phase_ == phase::body)
        if (auto const left = body_time_left(); left.count() > 0) return set_deadline(left);
    is_late_ = true;
    error_code ignored;
    stream_->socket().cancel(ignored);  // if the read is already done, on_read() sees is_late_
}

/// The bytes received so far extend the time, at the minimum rate for a body.
std::chrono::milliseconds session::body_time_left() const
{
    auto const rate = hub_.limits.body_rate_min;
    std::chrono::milliseconds const bought{rate == 0 ? 0 : reader_.body_bytes() * 1'000 / rate};
    auto const end = body_begun_at_ + hub_.limits.body_time + bought;
    return std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
}

void session::clear_deadline()
{
    ++deadline_count_;
    is_late_ = false;
    timer_.cancel();
}

}  // namespace skald::http
