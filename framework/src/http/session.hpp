// One connection: reads a request, has it handled, writes the response, and repeats.
//
// Responses go out in the order of the requests, because the next request is not read before the last got its response.
// What a client pipelines waits in the kernel's buffer, and slows down only that client.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include <boost/asio/steady_timer.hpp>

#include "core/log.hpp"
#include "http/body_budget.hpp"
#include "http/lane_pool.hpp"
#include "http/observer.hpp"
#include "http/peer_count.hpp"
#include "http/poll_schedule.hpp"
#include "http/request_reader.hpp"
#include "http/response_head.hpp"
#include "http/stream.hpp"

namespace skald::http {

class session;

/// What the sessions of one server share. It must outlive them.
struct session_hub
{
    http_limits const& limits;
    std::chrono::seconds wait_max;
    immediate_handler const& immediate;
    lane_pool& lanes;
    body_budget& bodies;
    core::logger& log;
    bool sheds_slow_clients{};
    http::observer* observer{};                               // null: nobody counts
    std::unordered_set<std::shared_ptr<session>> sessions{};  // all that are open
    std::list<session*> sheddable{};          // of those, the ones that may give way to a new one, the longest first
    std::size_t turned_away{0};               // those that are open only to send 503
    std::atomic<std::size_t> connections{0};  // equals sessions.size(), for other threads to read
    std::atomic<std::size_t> waits{0};        // those that wait for a better response; likewise
    bool draining{false};
    std::function<void()> on_last_closed{};
};

/// Threads: the I/O thread only.
class session : public std::enable_shared_from_this<session>
{
public:
    session(std::unique_ptr<stream> connection, session_hub& hub);

    void start(peer_count::place place, std::string peer);
    /// Responds without reading anything: there are too many connections.
    void turn_away(refusal const& why);
    /// Closes now if no request has begun, otherwise after the next response. A waiting client gets the latest one.
    void drain();
    /// Closes now.
    void close();

    /// Whether it may be closed to make room for another, now. Call it only for one of `sheddable`.
    bool gives_way();

    /// Whether a request was read completely and its response has not been sent.
    bool owes_response() const { return owes_response_; }

private:
    enum class phase { opening, idle, head, body, responding, waiting, lingering };

    void open();
    void on_opened(boost::system::error_code error, std::size_t);
    void begin();

    void become_sheddable();
    void become_sheddable_if_slow();
    void stay();
    void await_request();
    void read_more();
    void on_read(boost::system::error_code error, std::size_t size);
    void advance();
    void read_body();
    void send_continue();
    void on_continue_sent(boost::system::error_code error, std::size_t);
    void refuse(refusal const& why);

    void dispatch();
    std::optional<reply> handle_now(received& asked);
    bool submit_to_lanes(received& asked);
    void respond(response made);
    void report(response const& made);
    std::size_t route_of(received const& asked) const;
    void on_written(boost::system::error_code error, std::size_t);

    void on_reply(received asked, reply made);
    void begin_wait(request const& message, std::chrono::seconds max_wait);
    void await_poll();
    void poll_again();
    void on_wait_timer();
    void end_wait();
    void forget_wait();

    void close_gently();
    void on_ended(boost::system::error_code error, std::size_t);
    void linger();
    void on_lingered(boost::system::error_code error, std::size_t size);

    void set_deadline(std::chrono::milliseconds within);
    void clear_deadline();
    void on_late();
    std::chrono::milliseconds body_time_left() const;

    template <auto member>
    completion then()
    {
        return completion::of<member>(shared_from_this());
    }

    std::unique_ptr<stream> stream_;
    boost::asio::steady_timer timer_;
    session_hub& hub_;
    body_budget::share body_{hub_.bodies};  // until the response is written, wherever the request is
    request_reader reader_;
    phase phase_{phase::opening};
    bool is_open_{true};
    std::optional<refusal> turned_away_{};
    bool owes_response_{false};
    bool is_head_request_{false};  // its response has no body
    bool closes_after_{false};
    std::size_t request_count_{0};
    std::size_t route_{0};                                                // of the request, for the observer
    std::optional<std::chrono::steady_clock::time_point> complete_at_{};  // when the request was
    peer_count::place place_;
    std::string peer_;
    std::optional<std::list<session*>::iterator> sheddable_at_{};
    bool has_unread_{false};  // the client may be sending bytes that will not be read

    // Whether the request's time is up, and which deadline is set: a deadline that fires after the next one was set
    // must not affect what follows.
    bool is_late_{false};
    std::uint64_t deadline_count_{0};
    std::chrono::steady_clock::time_point body_begun_at_{};

    std::array<char, 8 * 1024> received_;
    struct waiting
    {
        explicit waiting(poll_schedule s) : polls{s} {}
        poll_schedule polls;
        received asked{};
        response latest{};
        std::string applied{};  // for Preference-Applied
        bool is_polled{false};  // a lane has the request, or will get it
    };
    std::optional<waiting> waiting_;
    std::uint64_t submitted_{0};  // how often the lanes were asked: a reply to an earlier call comes too late

    std::string response_head_;  // being written
    std::string response_body_;
    std::size_t lingered_bytes_{0};
};

}  // namespace skald::http
