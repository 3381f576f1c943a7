#include "kafka/kafka_subscription.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>

namespace skald::kafka_detail {
namespace {

// The log says what it has said before once a minute.
constexpr std::chrono::seconds denied_again_after{61};

}  // namespace

kafka_subscription::kafka_subscription(consumer_settings settings, core::backoff reconnect, std::uint64_t seed,
                                       core::logger& log)
    : settings_{std::move(settings)}, log_{log}, schedule_{reconnect, seed}
{
    thread_.emplace([this] { run(); });
    wait_for_first_attempt();
}

// Every question to the cluster is bounded.
kafka_subscription::~kafka_subscription()
{
    mailbox_.close();
    thread_.reset();
}

void kafka_subscription::run()
{
    while (run_once())
        if (!mailbox_.wait_to_reconnect(schedule_.next())) break;
    with_.reset();
}

/// From a connection to its loss. False if there must not be another.
bool kafka_subscription::run_once()
try {
    connect();
    if (!is_refused_) greet();
    report_first_attempt();
    serve();
    mailbox_.disconnected("closed");
    return false;
}
catch (client_lost const& lost) {
    is_refused_ = true;
    with_.reset();
    ++generation_;
    lose(lost.what());
    report_first_attempt();
    return true;
}
catch (denied const& lost) {
    is_refused_ = true;
    if (with_) with_->take_back(++generation_);
    denied_ = lost.what();
    lose(denied_);
    report_first_attempt();
    return true;
}
catch (kafka_error const& lost) {
    // It stays in its group, which waits for it for a while.
    if (with_) with_->take_back(++generation_);
    lose(lost.what());
    report_first_attempt();
    return true;
}
catch (configuration_error const& error) {
    with_.reset();
    ++generation_;
    bool const is_first = is_first_attempt();
    lose(error.what());
    report_first_attempt(std::current_exception());
    return !is_first;
}
catch (std::exception const& error) {
    // No descriptors, no memory: in what state the consumer is nobody knows.
    with_.reset();
    ++generation_;
    lose(error.what());
    report_first_attempt();
    return true;
}

void kafka_subscription::greet()
{
    is_refused_ = false;
    denied_.clear();
    schedule_.connected(clock::now());
    log_.info("broker.connected", {{"role", "consumer"}, {"broker", "kafka"}});
    mailbox_.connected();
}

void kafka_subscription::connect()
{
    if (with_) with_->ask();
    else with_ = std::make_unique<consumer>(settings_, generation_, log_);
}

void kafka_subscription::lose(std::string const& why)
{
    schedule_.failed(clock::now());
    mailbox_.disconnected(why);
    say_lost(why);
}

void kafka_subscription::say_lost(std::string const& why)
{
    said_ = clock::now();
    auto const retry = std::chrono::ceil<std::chrono::milliseconds>(std::max(schedule_.next(), said_) - said_);
    log_.warning(
        "broker.lost",
        {{"role", "consumer"}, {"broker", "kafka"}, {"reason", why}, {"retry_ms", std::int64_t{retry.count()}}});
}

void kafka_subscription::serve()
{
    for (;;) {
        auto const asked = mailbox_.collect();
        if (asked.stop) with_->stop();
        with_->settle(asked);
        if (asked.close) return with_->close();
        with_->keep();
        if (is_refused_ && with_->is_member()) greet();
        // librdkafka asks again by itself, and tells a refusal once.
        if (!denied_.empty() && clock::now() - said_ >= denied_again_after) {
            auto const still = with_->unreadable();
            say_lost(still.empty() ? denied_ : still);
        }
        if (!with_->take(mailbox_)) wait_for_something();
    }
}

void kafka_subscription::wait_for_something() const
{
    std::array<pollfd, 2> ready{{{with_->arrivals().descriptor(), POLLIN, 0}, {mailbox_.wake_descriptor(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), static_cast<int>(with_->patience().count()));
}

}  // namespace skald::kafka_detail
