#include "rabbitmq/rabbitmq_subscription.hpp"

#include "rabbitmq/consumer_session.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>

namespace skald::rabbitmq {
namespace {

using namespace std::chrono_literals;

constexpr auto end_max_wait = 2s;

}  // namespace

rabbitmq_subscription::rabbitmq_subscription(subscription_settings settings, core::logger& log)
    : settings_{std::move(settings)}, log_{log}, schedule_{settings_.reconnect, settings_.seed}
{
    thread_.emplace([this] { run(); });
    wait_for_first_attempt();  // if this throws, the thread has ended by itself and is joined by its destructor
}

rabbitmq_subscription::~rabbitmq_subscription()
{
    mailbox_.close();
    if (!thread_->ends_within(end_max_wait)) interrupter_.break_for_good();
    thread_.reset();
}

void rabbitmq_subscription::run()
{
    while (run_once())
        if (!mailbox_.wait_to_reconnect(schedule_.next())) return;
}

/// One connection from beginning to end. False if there must not be another.
bool rabbitmq_subscription::run_once()
{
    try {
        consuming_ = false;
        consumer_settings const consumer{settings_.who, settings_.rebind_every, parked_readable_, settings_.declares};
        consumer_session session{settings_.connection, interrupter_, consumer, ++generation_};
        serve(session);
        mailbox_.disconnected("closed");
        report_first_attempt();
        return false;
    }
    catch (topology_mismatch const& mismatch) {
        if (is_first_attempt()) {
            report_first_attempt(std::current_exception());
            return false;
        }
        log_.error("broker.topology_mismatch", {{"role", "consumer"}, {"error", mismatch.what()}});
        lose(mismatch.what());
    }
    catch (parked_undecodable const& error) {
        parked_readable_ = false;
        log_.error("broker.parked_undecodable", {{"error", error.what()}});
        lose(error.what());
    }
    catch (std::exception const& lost) {
        lose(lost.what());
    }
    report_first_attempt();
    return true;
}

void rabbitmq_subscription::lose(std::string const& why)
{
    schedule_.failed(clock::now());
    mailbox_.disconnected(why);
    auto const retry = std::chrono::ceil<std::chrono::milliseconds>(schedule_.next() - clock::now());
    log_.warning("broker.lost", {{"role", "consumer"},
                                 {"broker", describe(settings_.connection.where)},
                                 {"reason", why},
                                 {"retry_ms", std::int64_t{retry.count()}}});
}

void rabbitmq_subscription::record_consuming(consumer_session const& session)
{
    if (consuming_ || !session.consuming()) return;
    consuming_ = true;
    schedule_.connected(clock::now());
    log_.info("broker.connected", {{"role", "consumer"}, {"broker", describe(settings_.connection.where)}});
    mailbox_.connected();
    report_first_attempt();
}

void rabbitmq_subscription::log_dead_letter(consumer_session const& session)
{
    if (session.dead_lettered().empty() || std::exchange(dead_letter_logged_, true)) return;
    log_.warning("broker.dead_lettered", {{"reason", session.dead_lettered()}});
}

void rabbitmq_subscription::serve(consumer_session& session)
{
    for (;;) {
        auto const asked = mailbox_.collect();
        session.send_acks(asked);
        if (asked.stop) session.cancel();
        if (asked.close) return session.close();
        bool const more = session.read(mailbox_);
        record_consuming(session);
        log_dead_letter(session);
        session.keep_bound();
        if (!more) wait_for_something(session);
    }
}

/// Only after read() found nothing more: rabbitmq-c and TLS keep what they have read in memory, where poll() does not
/// see it.
void rabbitmq_subscription::wait_for_something(consumer_session const& session) const
{
    std::array<pollfd, 2> ready{{{session.socket(), POLLIN, 0}, {mailbox_.wake_descriptor(), POLLIN, 0}}};
    // Heartbeats are served by reading, so it reads well before the next one is due.
    auto const timeout = std::clamp(settings_.connection.heartbeat_seconds * 1000 / 4, 250, 5'000);
    ::poll(ready.data(), ready.size(), timeout);
}

}  // namespace skald::rabbitmq
