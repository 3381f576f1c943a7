#include "rabbitmq/rabbitmq_publisher.hpp"

#include "core/failpoint.hpp"
#include "rabbitmq/encode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace skald::rabbitmq {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

// The watchdog breaks the socket only after publish() had its chance to end by itself.
constexpr auto watchdog_grace = 300ms;

// How long what was sent before the broker blocked is waited for. Not longer: the caller holds a transaction open.
constexpr auto blocked_grace = 250ms;

// After about this many bytes sent, answers are read, so that connection.blocked is noticed early. Each message counts
// as a few kilobytes more than it has.
constexpr std::size_t unread_bytes_max = 64 * 1024;
constexpr std::size_t message_overhead = 4 * 1024;

milliseconds time_left(std::chrono::steady_clock::time_point until)
{
    return std::max(0ms, std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()));
}

std::vector<ports::receipt> refuse_the_impossible(std::span<ports::outgoing const> messages, std::size_t frame_max)
{
    std::vector<ports::receipt> receipts;
    receipts.reserve(messages.size());
    for (auto const& [row, message] : messages) {
        auto why = refusal(message, frame_max);
        auto const status = why.empty() ? ports::publish_status::unresolved : ports::publish_status::refused;
        receipts.push_back({row, status, std::move(why)});
    }
    return receipts;
}

}  // namespace

rabbitmq_publisher::rabbitmq_publisher(publisher_settings settings, core::logger& log)
    : settings_{std::move(settings)}, log_{log}, schedule_{settings_.reconnect, settings_.seed}
{
    try {
        connect(settings_.connection.connect_timeout);
    } catch (connection_lost const& lost) {
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

void rabbitmq_publisher::connect(milliseconds patience)
{
    auto settings = settings_.connection;
    settings.connect_timeout = patience;
    session_.emplace(settings, breaker_);
    schedule_.connected(clock::now());
    trouble_.clear();
    blocked_ = false;
    log_.info("broker.connected", {{"role", "publisher"}, {"broker", describe(settings.where)}});
}

void rabbitmq_publisher::try_to_connect(milliseconds patience)
{
    sockets::watched const guard{watchdog_, clock::now() + patience + watchdog_grace};
    try {
        connect(patience);
    } catch (connection_lost const& lost) {
        lose(lost.what());
    } catch (topology_mismatch const& mismatch) {
        // The first connect threw it; now that the process runs it can only be told.
        log_.error("broker.topology_mismatch", {{"role", "publisher"}, {"error", mismatch.what()}});
        lose(mismatch.what());
    }
}

void rabbitmq_publisher::lose(std::string const& why)
{
    session_.reset();
    schedule_.failed(clock::now());
    trouble_ = why;
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
        note_blocking();
    } catch (connection_lost const& lost) {
        lose(lost.what());
    }
}

void rabbitmq_publisher::note_blocking()
{
    bool const now_blocked = !session_->blocked().empty();
    if (now_blocked == blocked_) return;
    blocked_ = now_blocked;
    if (blocked_) log_.warning("broker.blocked", {{"reason", session_->blocked()}});
    else log_.info("broker.unblocked");
}

bool rabbitmq_publisher::available()
{
    listen();
    if (!session_ && schedule_.due(clock::now())) try_to_connect(settings_.connection.connect_timeout);
    return session_ && session_->blocked().empty();
}

void rabbitmq_publisher::tend()
{
    listen();
}

std::string rabbitmq_publisher::trouble() const
{
    if (!session_) return trouble_;
    return session_->blocked().empty() ? "" : "blocked by the broker: " + session_->blocked();
}

bool rabbitmq_publisher::ready(clock::time_point until)
{
    listen();
    if (!session_ && schedule_.due(clock::now()))
        try_to_connect(std::clamp(time_left(until), 1ms, settings_.connection.connect_timeout));
    return session_ && session_->blocked().empty();
}

std::vector<ports::receipt> rabbitmq_publisher::publish(batch messages, milliseconds deadline)
{
    auto const until = clock::now() + std::min<milliseconds>(deadline, 1h);
    bool const can_send = ready(until);
    auto receipts = refuse_the_impossible(messages, session_ ? session_->frame_max() : AMQP_DEFAULT_FRAME_SIZE);
    if (can_send) {
        sockets::watched const guard{watchdog_, until + watchdog_grace};
        try {
            send_all(messages, receipts, until);
            SKALD_FAILPOINT("relay.sent");
            await_answers(until);
            settle(messages, receipts);
            note_blocking();
        } catch (connection_lost const& lost) {
            settle(messages, receipts);  // what was answered before still holds
            lose(lost.what());
        } catch (std::exception const& error) {
            // Answers to what was sent would be taken for answers to the next batch, which has other messages in the
            // same positions: on another connection they never come.
            lose(error.what());
            throw;
        }
    }
    auto const why = trouble();
    for (auto& one : receipts)
        if (one.status == ports::publish_status::unresolved) one.reason = why.empty() ? "the deadline passed" : why;
    return receipts;
}

bool rabbitmq_publisher::make_room(clock::time_point until)
{
    while (session_->window().outstanding() >= settings_.confirm_window) {
        if (!session_->blocked().empty() || clock::now() >= until) return false;
        session_->read(time_left(until));
    }
    return session_->blocked().empty() && clock::now() < until;
}

void rabbitmq_publisher::send_all(batch messages, std::vector<ports::receipt> const& receipts, clock::time_point until)
{
    std::size_t unread = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (receipts[i].status == ports::publish_status::refused) continue;
        if (!make_room(until)) return;
        session_->send(i, messages[i].message);
        SKALD_FAILPOINT("relay.sending");
        unread += message_overhead + messages[i].message.body.size();
        if (unread < unread_bytes_max) continue;
        session_->drain();
        unread = 0;
    }
}

void rabbitmq_publisher::await_answers(clock::time_point until)
{
    auto& window = session_->window();
    auto give_up = until;
    bool seen_blocked = false;
    while (window.outstanding() > 0 && clock::now() < give_up) {
        session_->read(time_left(give_up));
        if (seen_blocked || session_->blocked().empty()) continue;
        seen_blocked = true;
        give_up = std::min(until, clock::now() + blocked_grace);
    }
    if (window.outstanding() == 0) return;

    // A blocked connection is kept, since a new one would look available until it published. Any other that does not
    // answer in time is given up.
    if (session_->blocked().empty())
        throw connection_lost{fmt::format("{} messages were not confirmed in time", window.outstanding())};
    window.abandon();
}

void rabbitmq_publisher::settle(batch messages, std::vector<ports::receipt>& receipts)
{
    for (auto& [position, status, reason] : session_->window().take_resolved()) {
        if (status == ports::publish_status::returned)
            reason += fmt::format(": no queue is bound for `{}`", messages[position].message.destination);
        receipts[position].status = status;
        receipts[position].reason = std::move(reason);
    }
}

}  // namespace skald::rabbitmq
