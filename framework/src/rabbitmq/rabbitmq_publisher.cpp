#include "rabbitmq/rabbitmq_publisher.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "rabbitmq/properties.hpp"
#include "rabbitmq/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace skald::rabbitmq {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

// The watchdog interrupts the socket only after publish() had its chance to end by itself.
constexpr auto watchdog_grace = 300ms;

// How long to wait for what was sent before the broker blocked. Not longer: the caller may hold a transaction open.
constexpr auto blocked_grace = 250ms;

// After about this many bytes sent, answers are read, so that connection.blocked is noticed early. Each message counts
// as a few kilobytes more than its size.
constexpr std::size_t unread_bytes_max = 64 * 1024;
constexpr std::size_t message_overhead = 4 * 1024;

milliseconds time_left(std::chrono::steady_clock::time_point until)
{
    return std::max(0ms, std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()));
}

// Whether that is why the broker closed the channel. Skald's own exchange is looked for, or declared, at each connect.
bool is_barred_by(refused_by_broker const& refusal, std::string const& exchange)
{
    if (exchange == exchange_name) return false;
    if (refusal.code() != AMQP_ACCESS_REFUSED && refusal.code() != AMQP_NOT_FOUND) return false;
    auto const named = fmt::format("exchange '{}'", exchange.empty() ? "amq.default" : exchange);
    return std::string_view{refusal.what()}.find(named) != std::string_view::npos;
}

char const* remedy_for(refused_by_broker const& refusal)
{
    return refusal.code() == AMQP_NOT_FOUND ? "declare it again, or delete what is to be sent there from skald.outbox"
                                            : "let this user write to it (`rabbitmqctl set_permissions`): replies go "
                                              "to `amq.default`. See docs/security.md, \"Permissions at the broker\"";
}

}  // namespace

// Packs many small frames into few packets. The library writes each frame separately, and a message has three: without
// this the broker is woken for each message, which costs both sides more than the frame does.
//
// While it lives, the kernel sends full packets only (tcp(7), TCP_CORK). Lifetime: the socket's, at most. A caller
// that waits for an answer meanwhile calls flush() first.
class gathered_writes
{
public:
    explicit gathered_writes(int socket) : socket_{socket} { set(1); }
    ~gathered_writes() { set(0); }
    gathered_writes(gathered_writes const&) = delete;
    gathered_writes& operator=(gathered_writes const&) = delete;

    void flush()
    {
        set(0);
        set(1);
    }

private:
    // If it fails, everything is sent as it comes, as without it.
    void set(int on) const { ::setsockopt(socket_, IPPROTO_TCP, TCP_CORK, &on, sizeof on); }

    int socket_;
};

rabbitmq_publisher::rabbitmq_publisher(publisher_settings settings, core::logger& log)
    : settings_{std::move(settings)}, log_{log}, schedule_{settings_.reconnect, settings_.seed}, barred_{
                                                                                                     settings_.barred}
{
    try {
        connect(settings_.connection.connect_timeout);
    }
    catch (connection_lost const& lost) {
        lose(lost.what());
    }
}

rabbitmq_publisher::~rabbitmq_publisher()
{
    if (!session_) return;
    sockets::watched const guard{watchdog_, clock::now() + 1s};
    session_->close();
    session_.reset();
}

void rabbitmq_publisher::connect(milliseconds timeout)
{
    auto settings = settings_.connection;
    settings.connect_timeout = timeout;
    session_.emplace(settings, interrupter_, settings_.declares);
    schedule_.connected(clock::now());
    last_error_.clear();
    blocked_ = false;
    log_.info("broker.connected", {{"role", "publisher"}, {"broker", describe(settings.where)}});
}

void rabbitmq_publisher::try_to_connect(milliseconds timeout)
{
    sockets::watched const guard{watchdog_, clock::now() + timeout + watchdog_grace};
    try {
        connect(timeout);
    }
    catch (connection_lost const& lost) {
        lose(lost);
    }
    catch (topology_mismatch const& mismatch) {
        // The first connect threw it; now that the process runs it can only be logged.
        log_.error("broker.topology_mismatch", {{"role", "publisher"}, {"error", mismatch.what()}});
        lose(mismatch.what());
    }
}

void rabbitmq_publisher::lose(connection_lost const& lost)
{
    if (auto const* const refusal = dynamic_cast<refused_by_broker const*>(&lost)) bar_exchanges(*refusal);
    lose(lost.what());
}

// One exchange cost the channel: what was sent there is set aside, and all else is sent again on the next connection.
void rabbitmq_publisher::bar_exchanges(refused_by_broker const& refusal)
{
    if (!session_) return;
    for (auto const& exchange : session_->window().exchanges()) {
        if (!is_barred_by(refusal, exchange)) continue;
        auto const why = fmt::format("{}; {}", refusal.what(), remedy_for(refusal));
        session_->window().bar(exchange, why);
        barred_.bar(exchange, why, clock::now());
    }
}

void rabbitmq_publisher::lose(std::string const& why)
{
    if (session_) {
        session_->window().abandon(why);  // answers received before still hold
        harvest();
    }
    waiting_.clear();
    session_.reset();
    schedule_.failed(clock::now());
    last_error_ = why;
    log_.warning("broker.lost", {{"role", "publisher"},
                                 {"broker", describe(settings_.connection.where)},
                                 {"reason", why},
                                 {"retry_ms", std::int64_t{time_left(schedule_.next()).count()}}});
}

void rabbitmq_publisher::listen()
{
    if (!session_) return;
    sockets::watched const guard{watchdog_, clock::now() + 1s};
    try {
        session_->drain();
        record_blocking();
        harvest();
        // Otherwise the connection would be cut at the deadline of a wait for what can't come.
        SKALD_ASSERT(waiting_.empty() || session_->window().outstanding() > 0);
        fail_overdue();
    }
    catch (connection_lost const& lost) {
        lose(lost);
    }
}

void rabbitmq_publisher::record_blocking()
{
    bool const now_blocked = !session_->blocked().empty();
    if (now_blocked == blocked_) return;
    blocked_ = now_blocked;
    // What was sent before may still be answered, but not for long: its rows may be locked meanwhile.
    if (blocked_)
        for (auto& one : waiting_) one.until = std::min(one.until, clock::now() + blocked_grace);
    if (blocked_) log_.warning("broker.blocked", {{"reason", session_->blocked()}});
    else log_.info("broker.unblocked");
}

bool rabbitmq_publisher::available()
{
    return is_available_within(settings_.connection.connect_timeout);
}

bool rabbitmq_publisher::is_available_within(milliseconds timeout)
{
    listen();
    if (!session_ && schedule_.due(clock::now()))
        try_to_connect(std::clamp(timeout, 1ms, settings_.connection.connect_timeout));
    return session_ && session_->blocked().empty();
}

std::string rabbitmq_publisher::last_error() const
{
    if (!session_) return last_error_;
    return session_->blocked().empty() ? "" : "blocked by the broker: " + session_->blocked();
}

void rabbitmq_publisher::send(batch messages, milliseconds deadline)
{
    auto const until = clock::now() + std::min<milliseconds>(deadline, 1h);
    std::size_t dealt_with = 0;
    if (is_available_within(time_left(until))) {
        sockets::watched const guard{watchdog_, until + watchdog_grace};
        try {
            send_all(messages, until, dealt_with);
            SKALD_FAILPOINT("relay.sent");
            record_blocking();
        }
        catch (connection_lost const& lost) {
            lose(lost);
        }
        catch (std::exception const& error) {
            // Part of a message may be on the wire, and nothing waits for the answers to the others any more.
            lose(error.what());
            throw;
        }
    }
    SKALD_ASSERT(dealt_with <= messages.size());
    auto const why = last_error();
    for (auto const& [row, message] : messages.subspan(dealt_with))
        receipts_.push_back({row, ports::publish_status::unresolved, why.empty() ? "the deadline passed" : why});
}

// Until fewer than `below` wait for their answers.
bool rabbitmq_publisher::make_room(std::size_t below, clock::time_point until, gathered_writes& writes)
{
    while (session_->window().outstanding() >= below) {
        if (!session_->blocked().empty() || clock::now() >= until) return false;
        writes.flush();  // the answers that this waits for are to what was sent
        session_->read(time_left(until));
    }
    return session_->blocked().empty() && clock::now() < until;
}

// `dealt_with` counts those that are sent or refused, even if it throws: the session answers for what it was given.
void rabbitmq_publisher::send_all(batch messages, clock::time_point until, std::size_t& dealt_with)
{
    auto& window = session_->window();
    SKALD_ASSERT(waiting_.empty() || waiting_.back().end <= window.next_tag());  // harvest() takes them in order
    waiting_.push_back({until, window.next_tag()});
    gathered_writes writes{session_->socket()};
    std::size_t unread = 0;
    for (auto const& one : messages) {
        auto const& [row, message] = one;
        auto const exchange = exchange_of(message);
        if (auto no = refuse(one, exchange)) {
            receipts_.push_back(*std::move(no));
            ++dealt_with;
            continue;
        }
        // If it costs the connection, it costs nothing else its answer.
        bool const goes_alone = barred_.is_doubtful(exchange);
        if (!make_room(goes_alone ? 1 : settings_.confirm_window, until, writes)) return;
        SKALD_ASSERT(window.outstanding() < settings_.confirm_window);
        ++dealt_with;
        waiting_.back().end = window.next_tag() + 1;
        session_->send(row, message);
        SKALD_FAILPOINT("relay.sending");
        if (goes_alone) {
            if (!make_room(1, until, writes)) return;
            barred_.open(exchange);
        }
        unread += message_overhead + message.body.size();
        if (unread < unread_bytes_max) continue;
        session_->drain();
        unread = 0;
    }
}

// Nothing: it may be sent.
std::optional<ports::receipt> rabbitmq_publisher::refuse(ports::outgoing const& one, std::string const& exchange) const
{
    if (auto why = refusal(one.message, session_->frame_max()); !why.empty())
        return ports::receipt{one.row, ports::publish_status::refused, std::move(why)};
    if (auto why = barred_.why_not(exchange, clock::now()); !why.empty())
        return ports::receipt{one.row, ports::publish_status::barred, std::move(why)};
    return std::nullopt;
}

std::vector<ports::receipt> rabbitmq_publisher::collect(milliseconds wait)
{
    listen();
    if (receipts_.empty() && wait > 0ms && !is_woken_within(wait)) listen();
    return std::exchange(receipts_, {});
}

/// Only after listen() found nothing more: rabbitmq-c and TLS keep what they have read in memory, where poll() does not
/// see it. Heartbeats are served by reading, so it never waits long. True if it was interrupted and nothing else
/// happened: then there is something to send, and that goes first.
bool rabbitmq_publisher::is_woken_within(milliseconds wait)
{
    auto longest = std::min<milliseconds>(wait, 1s);
    if (!waiting_.empty()) longest = std::min(longest, time_left(waiting_.front().until));
    std::array<pollfd, 2> ready{{{wake_.descriptor(), POLLIN, 0}, {session_ ? session_->socket() : -1, POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), static_cast<int>(longest.count()));
    if (ready[0].revents == 0) return false;
    wake_.clear();
    return ready[1].revents == 0;
}

void rabbitmq_publisher::harvest()
{
    std::ranges::move(session_->window().take_resolved(), std::back_inserter(receipts_));
    auto const oldest = session_->window().oldest_tag();
    while (!waiting_.empty() && waiting_.front().end <= oldest) waiting_.pop_front();
}

void rabbitmq_publisher::fail_overdue()
{
    if (waiting_.empty() || clock::now() < waiting_.front().until) return;
    // A blocked connection is kept, since a new one would look available until it published. Any other that does not
    // answer in time is dropped.
    if (session_->blocked().empty())
        throw connection_lost{fmt::format("{} messages were not confirmed in time", session_->window().outstanding())};
    session_->window().abandon(last_error());
    harvest();
    waiting_.clear();
}

}  // namespace skald::rabbitmq
