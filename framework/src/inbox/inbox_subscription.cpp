#include "inbox/inbox_subscription.hpp"

#include "inbox/consumer.hpp"

#include <array>
#include <utility>

#include <poll.h>

namespace skald::inbox {

inbox_subscription::inbox_subscription(subscription_settings settings, core::logger& log)
    : settings_{std::move(settings)}, log_{log}, schedule_{settings_.reconnect, settings_.seed}
{
    thread_.emplace([this] { run(); });
    wait_for_first_attempt();
}

// Every call to the server is bounded (postgres::connection::run).
inbox_subscription::~inbox_subscription()
{
    mailbox_.close();
    thread_.reset();
}

void inbox_subscription::run()
{
    while (run_once())
        if (!mailbox_.wait_to_reconnect(schedule_.next())) return;
}

/// One connection from beginning to end. False if there must not be another.
bool inbox_subscription::run_once()
try {
    consumer with{settings_.database, settings_.who, ++generation_, ended_};
    schedule_.connected(clock::now());
    log_.info("broker.connected", {{"role", "consumer"}, {"broker", "the inbox of " + settings_.who.service}});
    mailbox_.connected();
    report_first_attempt();
    serve(with);
    mailbox_.disconnected("closed");
    return false;
}
catch (std::exception const& lost) {
    lose(lost.what());
    report_first_attempt();
    return true;
}

void inbox_subscription::lose(std::string const& why)
{
    schedule_.failed(clock::now());
    mailbox_.disconnected(why);
    auto const retry = std::chrono::ceil<std::chrono::milliseconds>(schedule_.next() - clock::now());
    log_.warning("broker.lost", {{"role", "consumer"},
                                 {"broker", "the inbox of " + settings_.who.service},
                                 {"reason", why},
                                 {"retry_ms", std::int64_t{retry.count()}}});
}

void inbox_subscription::serve(consumer& with)
{
    for (;;) {
        auto const asked = mailbox_.collect();
        with.settle(asked);
        if (asked.close) return with.close();
        with.keep();
        with.has_heard();  // also where nothing is taken any more: what waits in the socket would wake it at once
        bool const more = !asked.stop && (with.take(mailbox_) || with.has_heard());
        if (!more && !wait_for_something(with)) with.look_again();
    }
}

// False if there was nothing for as long as that may be believed.
bool inbox_subscription::wait_for_something(consumer const& with) const
{
    std::array<pollfd, 2> ready{{{with.socket(), POLLIN, 0}, {mailbox_.wake_descriptor(), POLLIN, 0}}};
    return ::poll(ready.data(), ready.size(), static_cast<int>(settings_.poll_every.count())) != 0;
}

}  // namespace skald::inbox
