#include "duplicator/duplicator.hpp"

#include "duplicator/agenda.hpp"
#include "duplicator/copier.hpp"
#include "duplicator/tap.hpp"
#include "rabbitmq/topology.hpp"
#include "sockets/watchdog.hpp"
#include "transports/io_thread.hpp"
#include "transports/reconnect_schedule.hpp"
#include "transports/waker.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <utility>

#include <poll.h>

namespace skald::tools {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto between_looks = 1s;    // between checks of the services' queues
constexpr auto after_refusal = 1s;    // after the broker refused a duplicate
constexpr auto call_patience = 30s;   // for one iteration of the loop; then its connections are cut
constexpr auto wait_longest = 250ms;  // well below a heartbeat
constexpr auto leave_patience = 2s;
constexpr auto abandon_patience = 3s;
constexpr int taken_per_turn = 64;

void check_options(duplicator_options const& o)
{
    if (o.services.empty()) throw std::invalid_argument{"no service is named whose messages are to be sent again"};
    for (auto const& service : o.services) rabbitmq::check_service_name(service);
    if (o.times < 1) throw std::invalid_argument{"a message is sent again once at least"};
    if (!o.delay) throw std::invalid_argument{"it is not said when the duplicates are to be sent"};
}

rabbitmq::connection_settings settings_for(rabbitmq::address const& where, char const* role)
{
    return {where, std::string{"skald-duplicator/"} + role};
}

}  // namespace

class duplicator::work
{
public:
    explicit work(duplicator_options options)
        : options_{std::move(options)}, where_{rabbitmq::parse_url(options_.broker_url)},
          agenda_{options_.times, options_.delay, options_.seed, options_.bytes_max}, schedule_{{}, options_.seed}
    {
        check_options(options_);
        connect();
        thread_.emplace([this] { run(); });
    }

    ~work()
    {
        is_abandoned_ = true;
        wake_.wake();
        if (thread_ && !thread_->ends_within(abandon_patience)) {
            tap_breaker_.break_for_good();
            copier_breaker_.break_for_good();
        }
        thread_.reset();
    }

    void hurry()
    {
        is_hurried_ = true;
        wake_.wake();
    }

    bool finish(milliseconds timeout)
    {
        is_stopping_ = true;
        wake_.wake();
        return thread_->ends_within(timeout) && !has_failed_ && so_far().left == 0;
    }

    duplicated so_far() const
    {
        duplicated d;
        d.duplicates = duplicates_;  // first: what is seen after that is not yet sent
        d.seen = seen_;
        d.left = d.seen * static_cast<std::uint64_t>(options_.times) - d.duplicates;
        return d;
    }

    void check() const
    {
        if (has_failed_) std::rethrow_exception(failure_);
    }

private:
    // All of these run on the thread; connect() also runs before it starts.
    void run();
    void run_once();
    void leave() noexcept;
    void connect();
    void lose(std::string const& why);
    void serve();
    void obey();
    bool take_in();
    void send_due();
    void take_replies();
    void poll_queues();
    void wait();
    bool is_done() const
    {
        return is_abandoned_ || (is_stopping_ && !tap_ && agenda_.empty() && (!copier_ || copier_->is_idle()));
    }

    duplicator_options options_;
    rabbitmq::address where_;
    agenda<captured_ptr> agenda_;
    transports::reconnect_schedule schedule_;
    clock::time_point polled_at_{};
    bool has_more_{};  // messages to take in

    // Each connection has an interrupter of its own, since an interrupter holds one socket.
    sockets::socket_interrupter tap_breaker_, copier_breaker_;
    sockets::watchdog tap_watchdog_{tap_breaker_}, copier_watchdog_{copier_breaker_};
    std::optional<tap> tap_;        // empty once it has to stop
    std::optional<copier> copier_;  // empty while the broker is away

    transports::waker wake_;
    std::atomic<bool> is_hurried_{}, is_stopping_{}, is_abandoned_{}, has_failed_{};
    std::atomic<std::uint64_t> seen_{}, duplicates_{};
    std::exception_ptr failure_;                   // written before has_failed_
    std::optional<transports::io_thread> thread_;  // last: it uses the members above
};

void duplicator::work::run()
{
    try {
        while (!is_done()) run_once();
    }
    catch (...) {
        failure_ = std::current_exception();
        has_failed_ = true;
    }
    leave();
}

void duplicator::work::leave() noexcept
{
    sockets::watched const for_tap{tap_watchdog_, clock::now() + leave_patience};
    sockets::watched const for_copier{copier_watchdog_, clock::now() + leave_patience};
    try {
        if (tap_) tap_->close();
    }
    catch (rabbitmq::connection_lost const&) {
        // Its queue disappears with the connection.
    }
    tap_.reset();
    if (copier_) copier_->close();
    copier_.reset();
}

void duplicator::work::run_once()
try {
    if (!copier_) connect();
    serve();
}
catch (rabbitmq::connection_lost const& lost) {
    lose(lost.what());
}

void duplicator::work::connect()
{
    sockets::watched const for_tap{tap_watchdog_, clock::now() + call_patience};
    sockets::watched const for_copier{copier_watchdog_, clock::now() + call_patience};
    auto& sends = copier_.emplace(settings_for(where_, "copier"), copier_breaker_);
    for (auto const& service : options_.services) sends.check_queue(service);
    if (!is_stopping_) tap_.emplace(settings_for(where_, "tap"), tap_breaker_, options_.services);
    schedule_.connected(clock::now());
}

void duplicator::work::lose(std::string const& why)
{
    if (copier_)
        for (auto& message : copier_->take_unconfirmed()) agenda_.put_back(message, clock::now());
    tap_.reset();
    copier_.reset();
    schedule_.failed(clock::now());
    if (options_.tell) options_.tell("the broker is away (" + why + "): it is tried again");
    while (!schedule_.due(clock::now()) && !is_abandoned_) {
        wake_.clear();
        wait();
    }
}

void duplicator::work::serve()
{
    while (!is_done()) {
        {
            sockets::watched const for_tap{tap_watchdog_, clock::now() + call_patience};
            sockets::watched const for_copier{copier_watchdog_, clock::now() + call_patience};
            obey();
            poll_queues();
            has_more_ = take_in();
            send_due();
            take_replies();
        }
        if (!is_done()) wait();
    }
}

void duplicator::work::obey()
{
    wake_.clear();
    if (is_stopping_ && tap_) {
        tap_->close();
        tap_.reset();
    }
    if (is_stopping_ || is_hurried_) agenda_.hurry(clock::now());
}

/// False if there are no more messages. If there are, they may be in the library's memory, which poll() can't see.
bool duplicator::work::take_in()
{
    for (int i = 0; i < taken_per_turn && tap_ && !agenda_.is_full(); ++i) {
        auto const message = tap_->next();
        if (!message) return false;
        ++seen_;
        agenda_.add(message, clock::now());
    }
    return tap_.has_value();
}

void duplicator::work::send_due()
{
    while (copier_->may_send()) {
        auto message = agenda_.take_due(clock::now());
        if (!message) return;
        copier_->send(std::move(*message));
    }
}

void duplicator::work::take_replies()
{
    duplicates_ += copier_->take_replies();
    for (auto& message : copier_->take_refused()) agenda_.put_back(message, clock::now() + after_refusal);
}

/// A deleted queue loses its service's messages, and from then on only the tap gets what is sent there.
void duplicator::work::poll_queues()
{
    if (clock::now() - polled_at_ < between_looks) return;
    polled_at_ = clock::now();
    for (auto const& service : options_.services) copier_->check_queue(service);
}

void duplicator::work::wait()
{
    std::array<pollfd, 3> ready{
        {{wake_.descriptor(), POLLIN, 0}, {copier_ ? copier_->socket() : -1, POLLIN, 0}, {-1, POLLIN, 0}}};
    if (has_more_ && tap_ && !agenda_.is_full()) return;
    if (tap_ && !agenda_.is_full()) ready[2].fd = tap_->socket();
    auto const now = clock::now();
    auto until = now + wait_longest;
    if (!copier_) until = std::min(until, schedule_.next());
    else if (copier_->may_send()) until = std::min(until, agenda_.next());
    auto const timeout = std::chrono::ceil<milliseconds>(std::max(until, now) - now);
    ::poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
}

duplicator::duplicator(duplicator_options options) : work_{std::make_unique<work>(std::move(options))} {}
duplicator::~duplicator() = default;

void duplicator::hurry()
{
    work_->hurry();
}

duplicated duplicator::so_far() const
{
    return work_->so_far();
}

void duplicator::check() const
{
    work_->check();
}

bool duplicator::finish(milliseconds timeout)
{
    return work_->finish(timeout);
}

}  // namespace skald::tools
