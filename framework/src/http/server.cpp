#include "http/server.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/body_budget.hpp"
#include "http/lane_pool.hpp"
#include "http/listen_address.hpp"
#include "http/peer_count.hpp"
#include "http/session.hpp"
#include "http/tls.hpp"

namespace skald::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

// After accept() failed, usually for want of file descriptors: time for other connections to close.
constexpr auto accept_pause = 100ms;

server_options checked(server_options options)
{
    if (options.lanes == 0) throw std::invalid_argument{"http: at least one lane is needed"};
    if (options.limits.connections_max == 0) throw std::invalid_argument{"http: at least one connection is needed"};
    if (options.limits.connection_requests_max == 0)
        throw std::invalid_argument{"http: at least one request on a connection is needed"};
    return options;
}

error_code listen_on(tcp::acceptor& acceptor, tcp::endpoint const& endpoint)
{
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    // A restarted service gets its port back even though connections of its predecessor still linger in the kernel.
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address{true}, error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
        error_code ignored;
        acceptor.close(ignored);
    }
    return error;
}

tcp::acceptor listening(asio::io_context& io, server_options const& options)
{
    auto const wanted = parse_listen_address(options.listen, options.listen_name);
    error_code error;
    tcp::resolver resolver{io};
    auto const flags = tcp::resolver::passive | tcp::resolver::numeric_service;
    auto const found = resolver.resolve(wanted.host, std::to_string(wanted.port), flags, error);

    tcp::acceptor acceptor{io};
    for (auto const& entry : found)
        if (!(error = listen_on(acceptor, entry.endpoint()))) return acceptor;
    auto const why = listen_setting(options.listen, options.listen_name) + " can't be used: " + error.message();
    bool const may_pass = error == boost::system::errc::address_in_use ||
                          error == boost::system::errc::address_not_available ||
                          error.category() == asio::error::get_netdb_category();
    if (may_pass) throw address_unavailable{why};
    throw std::runtime_error{why};
}

}  // namespace

class server::implementation
{
public:
    implementation(server_options options, handler on_request, core::logger& log, immediate_handler immediate,
                   http::observer* observer);
    ~implementation();

    tcp::endpoint endpoint() const { return endpoint_; }
    server_load load() const;
    void start();
    bool drain(std::chrono::milliseconds within);

private:
    void run();
    void accept();
    void admit(tcp::socket socket);
    bool has_room();
    void on_accepted(error_code error, tcp::socket socket);
    void begin_drain();
    void cut_off();

    server_options const options_;
    immediate_handler const immediate_;
    core::logger& log_;
    std::optional<tls> tls_;

    // Destroyed last: handlers still queued in io_ hold sessions, which hold their shares of peers_ and bodies_.
    peer_count peers_;
    body_budget bodies_;
    asio::io_context io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> stays_{io_.get_executor()};
    tcp::acceptor acceptor_;
    tcp::endpoint const endpoint_;
    asio::steady_timer accept_again_;
    lane_pool lanes_;
    session_hub hub_;
    std::thread io_thread_;

    std::promise<void> last_closed_;
    bool is_last_closed_{false};
    bool owed_responses_{false};  // written by cut_off(), read once the I/O thread has ended
    std::optional<bool> drained_;
};

server::implementation::implementation(server_options options, handler on_request, core::logger& log,
                                       immediate_handler immediate, http::observer* observer)
    : options_{checked(std::move(options))}, immediate_{std::move(immediate)}, log_{log},
      tls_{options_.tls ? std::optional<tls>{std::in_place, *options_.tls, log} : std::nullopt},
      peers_{options_.limits.peer_connections_max}, bodies_{options_.limits.bodies_bytes_max},
      acceptor_{listening(io_, options_)}, endpoint_{acceptor_.local_endpoint()},
      accept_again_{io_}, lanes_{options_.lanes, options_.limits.queue_max, std::move(on_request), log},
      hub_{.limits = options_.limits,
           .wait_max = options_.wait_max,
           .immediate = immediate_,
           .lanes = lanes_,
           .bodies = bodies_,
           .log = log,
           .sheds_slow_clients = options_.sheds_slow_clients,
           .observer = observer}
{}

server::implementation::~implementation()
{
    drain(0ms);
    lanes_.join();
}

void server::implementation::start()
{
    if (io_thread_.joinable() || drained_) throw std::logic_error{"http: a server starts once"};
    lanes_.start();
    accept();
    io_thread_ = std::thread{[this] { run(); }};
}

void server::implementation::run()
{
    for (;;) {
        try {
            io_.run();
            return;
        }
        catch (std::exception const& e) {
            // Out of memory, most likely. That costs this connection, not the service.
            log_.error("http.io_failed", {{"reason", e.what()}});
        }
    }
}

void server::implementation::accept()
{
    acceptor_.async_accept([this](error_code error, tcp::socket socket) { on_accepted(error, std::move(socket)); });
}

void server::implementation::on_accepted(error_code error, tcp::socket socket)
{
    if (hub_.draining) return;
    if (error) {
        log_.warning("http.accept_failed", {{"reason", error.message()}});
        accept_again_.expires_after(accept_pause);
        accept_again_.async_wait([this](error_code cancelled) {
            if (!cancelled && !hub_.draining) accept();
        });
        return;
    }
    accept();  // before anything that could throw
    admit(std::move(socket));
}

void server::implementation::admit(tcp::socket socket)
{
    error_code ignored;                               // the client may be gone already; reading from it will show that
    socket.set_option(tcp::no_delay{true}, ignored);  // responses are written whole: delaying them gains nothing
    auto const peer = socket.remote_endpoint(ignored).address();
    auto place = peers_.take(peer);
    bool const is_full = place && !has_room();
    if (is_full) place.reset();
    if (!place && hub_.turned_away >= turned_away_max) return;
    auto connection = tls_ ? tls_->stream_over(std::move(socket)) : plain_stream(std::move(socket));
    auto const admitted = std::make_shared<session>(std::move(connection), hub_);
    if (place) admitted->start(*std::move(place), peer_count::network_of(peer).to_string());
    else if (is_full) admitted->turn_away({503, "Too many connections are open."});
    else admitted->turn_away({429, "Too many connections are open from this address."});
}

/// When the server is full, the connection that has been idle longest is closed: an idle client must not keep out a new
/// one. A connection with a request on its way stays, unless slow clients are shed too.
bool server::implementation::has_room()
{
    if (hub_.sessions.size() < options_.limits.connections_max) return true;
    auto const longest = std::ranges::find_if(hub_.sheddable, &session::gives_way);
    if (longest == hub_.sheddable.end()) return false;
    log_.debug("http.idle_closed");
    (*longest)->close();
    return true;
}

server_load server::implementation::load() const
{
    auto const lanes = lanes_.now();
    return {hub_.connections, hub_.waits, lanes.running, lanes.waiting, bodies_.held()};
}

bool server::implementation::drain(std::chrono::milliseconds within)
{
    if (drained_) return *drained_;
    drained_ = true;
    auto const until = std::chrono::steady_clock::now() + within;
    if (io_thread_.joinable()) {
        asio::post(io_, [this] { begin_drain(); });
        last_closed_.get_future().wait_for(within);
        asio::post(io_, [this] { cut_off(); });
        io_thread_.join();
        drained_ = !owed_responses_;
    }
    error_code ignored;
    acceptor_.close(ignored);
    lanes_.stop();
    // A handler may run for nobody: its client has gone, or has an answer. It must not hold up the end of the process.
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (*drained_) drained_ = lanes_.wait_until_idle(std::max(left, 0ms));
    if (*drained_) lanes_.join();
    return *drained_;
}

void server::implementation::begin_drain()
{
    hub_.draining = true;
    error_code ignored;
    acceptor_.close(ignored);
    accept_again_.cancel();
    hub_.on_last_closed = [this] {
        if (!std::exchange(is_last_closed_, true)) last_closed_.set_value();
    };
    for (auto const& open : std::vector(hub_.sessions.begin(), hub_.sessions.end())) open->drain();
    if (hub_.sessions.empty()) hub_.on_last_closed();
}

void server::implementation::cut_off()
{
    for (auto const& open : std::vector(hub_.sessions.begin(), hub_.sessions.end())) {
        owed_responses_ = owed_responses_ || open->owes_response();
        open->close();
    }
    io_.stop();
}

server::server(server_options options, handler on_request, core::logger& log, immediate_handler immediate,
               http::observer* observer)
    : implementation_{std::make_unique<implementation>(std::move(options), std::move(on_request), log,
                                                       std::move(immediate), observer)}
{}

server::~server() = default;

std::uint16_t server::port() const
{
    return implementation_->endpoint().port();
}

std::string server::address() const
{
    auto const at = implementation_->endpoint();
    return to_string({.host = at.address().to_string(), .port = at.port()});
}

void server::start()
{
    implementation_->start();
}

server_load server::load() const
{
    return implementation_->load();
}

bool server::drain(std::chrono::milliseconds within)
{
    return implementation_->drain(within);
}

}  // namespace skald::http
